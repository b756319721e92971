# record_clicks, what a click takes on disk, statistics from counters against raw clicks, and what rollup_clicks keeps up with.
use strict;
use warnings;

use Bench;
use Time::HiRes qw(time);

my $clicks = $ENV{BENCH_CLICKS} // 10_000_000;
my $links = 10_000;
my $batches = 200;
my $rounds = 5;

sql('CALL shortener.install()');
sql("SELECT count(*) FROM shortener.shorten_many((SELECT array_agg('https://example.com/page/' || i) FROM generate_series(1, $links) i))");

# Batches of 1,000 clicks, as the frontend sends them and as the table has them: links of which a few are visited often, 300
# user agents, 200 referrers, an address of IPv6 in ten.
sql(<<"SQL");
CREATE TABLE given AS
    SELECT c.batch, array_agg(c.link_id) AS link_ids, array_agg(now() - random() * interval '10 seconds') AS clicked_at,
           array_agg(CASE WHEN random() < 0.1 THEN '2001:db8::1'::inet + (random() * 1e9)::bigint * 65536
                          ELSE '10.0.0.0'::inet + (random() * 16e6)::bigint END) AS ips,
           array_agg('Mozilla/5.0 (X11; Linux x86_64; rv:' || 60 + c.agent % 60 || '.0) Gecko/20100101 Firefox/' || c.agent || '.0') AS user_agents,
           array_agg(CASE WHEN c.referrer < 200 THEN 'https://www.site-' || c.referrer || '.example/' END) AS referers
    FROM (SELECT i / 1000 AS batch, 1 + floor($links * power(random(), 3))::bigint AS link_id, floor(300 * power(random(), 2))::int AS agent,
                 floor(400 * random())::int AS referrer
          FROM generate_series(0, $batches * 1000 - 1) i) c
    GROUP BY c.batch;
UPDATE given g SET link_ids = (SELECT array_agg(l.id) FROM unnest(g.link_ids) i JOIN (SELECT id, row_number() OVER () AS n FROM shortener.link) l ON l.n = i);
ANALYZE given;
SQL

my $record = q{SELECT shortener.record_clicks(gen_random_uuid(), link_ids, clicked_at, ips, user_agents, referers) FROM given WHERE batch = :batch};
my $ready = q{INSERT INTO shortener.click_event (clicked_at, link_id, workspace_id, user_agent_id, referrer_id, place_id, ip)
	SELECT c.clicked_at, c.link_id, 1, c.user_agent_id, c.referrer_id, 0, c.ip FROM ready r
	CROSS JOIN LATERAL unnest(r.link_ids, r.clicked_at, r.user_agent_ids, r.referrer_ids, r.ips) c (link_id, clicked_at, user_agent_id, referrer_id, ip)
	WHERE r.batch = :batch};
sql("SELECT shortener.record_clicks(gen_random_uuid(), link_ids, clicked_at, ips, user_agents, referers) FROM given");
sql(<<'SQL');
CREATE TABLE ready AS
    SELECT g.batch, g.link_ids, g.clicked_at, g.user_agent_ids, g.referrer_ids, g.ips
    FROM (SELECT g.batch, array_agg(c.link_id) AS link_ids, array_agg(c.clicked_at) AS clicked_at, array_agg(coalesce(u.id, 0)) AS user_agent_ids,
                 array_agg(coalesce(r.id, 0)) AS referrer_ids, array_agg(shortener.anonymize_ip(c.ip)) AS ips
          FROM given g
          CROSS JOIN LATERAL unnest(g.link_ids, g.clicked_at, g.ips, g.user_agents, g.referers) c (link_id, clicked_at, ip, user_agent, referer)
          LEFT JOIN shortener.user_agent u ON u.user_agent = c.user_agent
          LEFT JOIN shortener.referrer r ON r.host = split_part(c.referer, '/', 3)
          GROUP BY g.batch) g;
ANALYZE ready;
SQL

sub clicks_a_second
{
	my ($statement) = @_;
	return sub {
		sql('TRUNCATE shortener.click_event, shortener.click_pending, shortener.click_batch');
		return 1000 * pgbench("\\set batch random(0, $batches - 1)\n$statement;\n", transactions => $batches, protocol => 'prepared')->{tps};
	};
}

heading('clicks');
compare('record_clicks / INSERT ... SELECT unnest of ready values', unit => 'clicks/s', goal => '>= 0.5', rounds => $rounds,
	ours => clicks_a_second($record), reference => clicks_a_second($ready));

# A rollup of what came since the last one, against the recording of it.
compare('rollup_clicks / record_clicks, 200,000 clicks on 10,000 links', unit => 'clicks/s', rounds => 3,
	ours => sub {
		sql('TRUNCATE shortener.click_event, shortener.click_pending, shortener.click_hour, shortener.click_day, shortener.click_day_breakdown, shortener.click_total');
		sql("SELECT shortener.record_clicks(gen_random_uuid(), link_ids, clicked_at, ips, user_agents, referers) FROM given");
		my $start = time;
		sql('CALL shortener.rollup_clicks()');
		return $batches * 1000 / (time - $start);
	},
	reference => clicks_a_second($record));

# A month of clicks. The counters come from the same clicks by one INSERT ... SELECT: how they came is not measured here.
sql('TRUNCATE shortener.click_event, shortener.click_pending, shortener.click_hour, shortener.click_day, shortener.click_day_breakdown, shortener.click_total');
sql(q{SELECT shortener.make_month_partition('click_day', date_trunc('month', now() - interval '30 days')::date)});
sql(<<"SQL");
INSERT INTO shortener.click_event (clicked_at, link_id, workspace_id, user_agent_id, referrer_id, place_id, ip)
    SELECT date_trunc('day', now(), 'UTC') - interval '30 days' + i * (interval '30 days' / $clicks), l.id, 1, 1 + i % 300, i % 200, 0,
           CASE WHEN i % 10 = 0 THEN shortener.anonymize_ip('2001:db8::1'::inet + i * 65536) ELSE shortener.anonymize_ip('10.0.0.0'::inet + i % 16000000) END
    FROM generate_series(0::bigint, $clicks - 1) i
    JOIN (SELECT id, row_number() OVER () - 1 AS n FROM shortener.link) l ON l.n = i * 7919 % $links;
INSERT INTO shortener.click_day (workspace_id, link_id, day, clicks, bots, visitors)
    SELECT workspace_id, link_id, (clicked_at AT TIME ZONE 'UTC')::date, count(*), 0,
           shortener.add_visitors(shortener.visitor_key(('x' || substr(md5(ip::text), 1, 16))::bit(64)::bigint), 16, 5, 256, 1)
    FROM shortener.click_event GROUP BY 1, 2, 3;
SQL
sql('VACUUM ANALYZE shortener.click_event');
sql('VACUUM ANALYZE shortener.click_day');

my $bytes = sql(<<'SQL');
SELECT sum(pg_total_relation_size(p.partition::regclass)) FROM shortener.month_partitions('click_event') c
CROSS JOIN LATERAL (SELECT 'shortener.' || quote_ident(c.partition)) p (partition)
SQL
compare('bytes of a raw click with its indexes / 90', unit => 'bytes', goal => '<= 1', rounds => 1,
	ours => sub { $bytes / $clicks }, reference => sub { 90 });

my $code = sql('SELECT short_code FROM shortener.link ORDER BY id OFFSET 4999 LIMIT 1');
compare('a month by day from raw clicks / click_series', unit => 'ms', goal => '>= 100', rounds => 3,
	ours => sub {
		pgbench("SELECT date_trunc('day', clicked_at, 'UTC'), count(*), count(DISTINCT ip) FROM shortener.click_event e
			JOIN shortener.link l ON l.workspace_id = e.workspace_id AND l.id = e.link_id AND l.short_code = '$code' GROUP BY 1 ORDER BY 1;\n", transactions => 3)->{ms};
	},
	reference => sub { pgbench("SELECT * FROM shortener.click_series('$code', 'day', now() - interval '31 days');\n", transactions => 100)->{ms} });
