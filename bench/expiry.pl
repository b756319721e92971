# cleanup_expired against a plain batched DELETE, and what uncached resolves notice of it.
use strict;
use warnings;

use Bench;
use File::Temp;
use Time::HiRes qw(time);

my $links = $ENV{BENCH_EXPIRY_LINKS} // 2_000_000;    # half of them expired
my $rounds = 3;

sql('CALL shortener.install()');

# So many links, every second one expired, in a fresh table each time.
sub fill
{
	sql("TRUNCATE shortener.link, shortener.retired_code, shortener.retired_number RESTART IDENTITY");
	for (my $first = 1; $first <= $links; $first += 10_000)
	{
		sql("SELECT count(*) FROM shortener.shorten_many((SELECT array_agg('https://example.com/' || rpad(i::text, 80, 'x')) FROM generate_series($first, least($first + 9999, $links)) i))");
	}
	sql('DROP TABLE IF EXISTS code');
	sql('CREATE TABLE code AS SELECT row_number() OVER (ORDER BY id)::int AS n, short_code FROM shortener.link');
	sql('ALTER TABLE code ADD PRIMARY KEY (n)');
	{
		local $ENV{PGOPTIONS} = '-c session_replication_role=replica';    # without triggers
		sql("UPDATE shortener.link SET expires_at = now() - interval '40 days' + id * interval '1 ms' WHERE id % 2 = 0");
	}
	sql('VACUUM (FULL, ANALYZE) shortener.link');
	sql('VACUUM ANALYZE code');
	sql('CHECKPOINT');
	return;
}

sql(<<'SQL');
CREATE PROCEDURE plain_delete(batch_size integer) LANGUAGE plpgsql AS $$
DECLARE
    batch integer;
BEGIN
    LOOP
        DELETE FROM shortener.link WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM shortener.link WHERE expires_at < now() - interval '30 days' AND deleted_at IS NULL
            ORDER BY expires_at LIMIT batch_size));
        GET DIAGNOSTICS batch = ROW_COUNT;
        COMMIT;
        EXIT WHEN batch < batch_size;
    END LOOP;
END $$;
SQL

sub rate
{
	my ($call) = @_;
	return sub {
		fill();
		my $before = sql('SELECT count(*) FROM shortener.link');
		my $start = time;
		sql($call);
		my $seconds = time - $start;
		my $removed = $before - sql('SELECT count(*) FROM shortener.link');
		die "$call removed $removed" unless $removed == $links / 2;
		return $removed / $seconds;
	};
}

heading('expiry');
compare(
	"cleanup_expired / plain batched DELETE, 1 of 2 M, batches of 1,000",
	unit => 'rows/s',
	goal => '>= 0.5',
	rounds => $rounds,
	ours => rate("CALL shortener.cleanup_expired(max_duration => '1 hour')"),
	# Without the triggers of link: it retires no code and tells no cache.
	reference => sub { local $ENV{PGOPTIONS} = '-c session_replication_role=replica'; return rate('CALL plain_delete(1000)')->(); });

# 99th percentile of resolve through one connection, over three seconds, in milliseconds.
sub resolve_p99
{
	my $script = File::Temp->new(SUFFIX => '.sql');
	print $script "\\set i random(1, $links)\nSELECT r.* FROM code c, shortener.resolve(c.short_code) r WHERE c.n = :i;\n";
	close $script;
	my $logs = File::Temp->newdir;
	system('pgbench -n -M prepared -T 3 -l --log-prefix ' . "$logs/log -f " . $script->filename . ' > /dev/null') == 0
	  or die 'pgbench failed';
	my @latencies;
	for my $log (glob "$logs/log*")
	{
		open(my $lines, '<', $log) or die "$log: $!";
		push @latencies, map { (split)[2] / 1000 } <$lines>;
	}
	@latencies = sort { $a <=> $b } @latencies;
	return $latencies[ 0.99 * @latencies ];
}

# The longest transaction of a cleanup, as somebody sees who looks every few milliseconds.
sql(<<'SQL');
CREATE FUNCTION longest_transaction() RETURNS numeric LANGUAGE plpgsql AS $$
DECLARE
    present numeric;
    longest numeric;
BEGIN
    LOOP
        PERFORM pg_stat_clear_snapshot();
        SELECT 1000 * extract(epoch FROM clock_timestamp() - xact_start) INTO present
            FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'CALL shortener.cleanup%';
        EXIT WHEN NOT FOUND AND longest IS NOT NULL;
        longest := greatest(longest, present);
        PERFORM pg_sleep(0.005);
    END LOOP;
    RETURN longest;
END $$;
SQL
compare(
	'longest transaction of cleanup_expired / a second',
	unit => 'ms',
	goal => '<= 1',
	rounds => 1,
	ours => sub {
		fill();
		my $pid = fork // die "fork: $!";
		exec 'psql', '-Xqc', "CALL shortener.cleanup_expired(max_duration => '1 hour')" if !$pid;
		my $longest = sql('SELECT longest_transaction()');
		waitpid $pid, 0;
		die 'the cleanup failed' if $?;
		return $longest;
	},
	reference => sub { 1000 });
my ($codes, $bytes) = split /\|/, sql("SELECT sum(codes), pg_total_relation_size('shortener.retired_code') + pg_total_relation_size('shortener.retired_number') FROM shortener.retired_number");
remark(sprintf '%.2f bytes a retired code, indexes and all', $bytes / $codes);

fill();
compare(
	'p99 of resolve during cleanup_expired / without',
	unit => 'ms',
	goal => '<= 1.5',
	rounds => 5,
	ours => sub {
		my $pid = fork // die "fork: $!";
		if (!$pid)
		{
			open STDERR, '>', '/dev/null' or die $!;    # where it says that it was cancelled
			exec 'psql', '-Xqc', "CALL shortener.cleanup_expired(max_duration => '1 hour')";
		}
		my $p99 = resolve_p99();
		# All of the measurement must have been during a cleanup: stop it only now, and fill again if it had ended.
		my $running = sql('SELECT is_running FROM shortener.cleanup_stats');
		sql("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query LIKE 'CALL shortener.cleanup%'");
		waitpid $pid, 0;
		die 'the cleanup ended before the measurement; set BENCH_EXPIRY_LINKS higher' if $running ne 't';
		fill();
		return $p99;
	},
	reference => \&resolve_p99);
