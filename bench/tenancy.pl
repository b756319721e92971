# What row-level security and authenticate() cost shorten, what the audit costs it, and whether the time of a wrong key tells
# where it differs.
use strict;
use warnings;

use Bench;

my $seconds = $ENV{BENCH_SECONDS} // 5;
my $rounds = 7;
my ($clients, $transactions) = (8, 250 * $seconds);
my $known = 100_000;

heading('tenancy');
sql('CALL shortener.install()');
sql(q{SET client_min_messages = warning; DROP ROLE IF EXISTS bench_application;
	CREATE ROLE bench_application LOGIN; SELECT shortener.create_workspace('acme');
	SELECT shortener.grant_access('bench_application', 'writer'), shortener.bind_role('bench_application', NULL)});
my $key = sql(q{SELECT shortener.create_api_key('bench', rate_limit => NULL, workspace => 'acme')});
for (my $first = 1; $first <= $known; $first += 10_000)
{
	sql("SELECT count(*) FROM shortener.shorten_many((SELECT array_agg(rpad('https://example.com/' || i || '/', 100, 'x')) FROM generate_series($first, $first + 9999) i), 'acme')");
}

# Every run takes the next URLs.
my $new = 6 * $rounds * $clients * $transactions;
sql("CREATE UNLOGGED TABLE new AS SELECT n, rpad('https://new.example/' || n || '/', 100, 'x') AS url FROM generate_series(1, $new) n");
sql("CREATE UNLOGGED TABLE known AS SELECT n, rpad('https://example.com/' || n || '/', 100, 'x') AS url FROM generate_series(1, $known) n");
sql("ALTER TABLE $_ ADD PRIMARY KEY (n)"), sql("GRANT SELECT ON $_ TO bench_application"), sql("VACUUM ANALYZE $_") for 'new', 'known';
sql('VACUUM ANALYZE shortener.link');
my $taken = 0;
sub links { return sql('SELECT count(*) FROM shortener.link WHERE workspace_id = 2'); }

# Shortens the URL that a subselect gives: as the owner of the tables, or as a tenant whose API key authenticates each
# transaction or the session.
my %side = (
	owner => [ 'postgres', '%s', ", 'acme'" ],
	owner_block => [ 'postgres', "BEGIN;\n%s\nCOMMIT;", ", 'acme'" ],
	tenant_block => [ 'bench_application', "BEGIN;\nSELECT shortener.authenticate(:key);\n%s\nCOMMIT;", '' ],
	tenant_session => [ 'bench_application', "\\if :i <= 1\nSELECT shortener.authenticate(:key, true);\n\\endif\n%s", '' ]);
sub script
{
	my ($side, $url) = @_;
	return sprintf $side{$side}[1], "SELECT shortener.shorten(($url)$side{$side}[2]);";
}
sub run
{
	my ($side, $script, @pgbench) = @_;
	local $ENV{PGUSER} = $side{$side}[0];
	return pgbench("\\set i :i + 1\n$script", clients => $clients, protocol => 'prepared', define => [ "key=$key", 'i=0' ], @pgbench)->{tps};
}
sub shorten_known
{
	my ($side) = @_;
	return sub { return run($side, "\\set n random(1, $known)\n" . script($side, 'SELECT url FROM known WHERE n = :n'), seconds => $seconds) };
}
sub shorten_new
{
	my ($side) = @_;
	return sub {
		my ($before, $count) = (links(), $clients * $transactions);
		my $tps = run($side, "\\set n $taken + :client_id * $transactions + :i\n" . script($side, 'SELECT url FROM new WHERE n = :n'), transactions => $transactions);
		$taken += $count;
		die 'not every URL has become a link of the tenant' if links() != $before + $count;
		return $tps;
	};
}
for my $unit ([ 'transaction', 'tenant_block', 'owner_block' ], [ 'session', 'tenant_session', 'owner' ])
{
	my ($authenticated, $ours, $reference) = @$unit;
	compare("new URLs, authenticated by $authenticated / no tenants",
		unit => '/s', goal => '>= 0.7', rounds => $rounds, ours => shorten_new($ours), reference => shorten_new($reference));
	compare("known URLs, authenticated by $authenticated / no tenants",
		unit => '/s', goal => '>= 0.7', rounds => $rounds, ours => shorten_known($ours), reference => shorten_known($reference));
}
die 'the tenant has made links that the owner has not' if links() != $known + $taken;

my $without = shorten_new('owner');
compare('new URLs with the audit / without',
	unit => '/s', rounds => $rounds,
	ours => sub { sql('SELECT shortener.enable_audit()'); my $tps = $without->(); sql('SELECT shortener.disable_audit()'); return $tps },
	reference => $without);
die 'entries are missing' if sql('SELECT count(*) FROM shortener.link_audit') != $rounds * $clients * $transactions;

# Wrong keys, a thousand to a transaction, against one that is wrong in every place.
sql(q{CREATE FUNCTION refused(key text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	PERFORM shortener.authenticate(key);
	RETURN false;
EXCEPTION WHEN invalid_authorization_specification THEN
	RETURN true;
END $$});
my $other = sub { my ($character) = @_; return $character eq 'a' ? 'b' : 'a' };
my $wrong_at = sub { my ($place) = @_; my $wrong = $key; substr($wrong, $place, 1) = $other->(substr $key, $place, 1); return $wrong };
my $time = sub {
	my ($wrong) = @_;
	return sub {
		return pgbench("SELECT count(*) FILTER (WHERE NOT refused(:wrong)) / 0 FROM generate_series(1, 1000) HAVING count(*) FILTER (WHERE NOT refused(:wrong)) > 0;",
			protocol => 'prepared', seconds => $seconds, define => ["wrong=$wrong"])->{ms};
	};
};
my $unlike = 'sk_' . join '', map { $other->($_) } split //, substr($key, 3);
my %wrong = (
	'first character' => $wrong_at->(3),
	'end of its prefix' => $wrong_at->(10),
	'after its prefix' => $wrong_at->(11),
	'last character' => $wrong_at->(length($key) - 1),
	'length' => substr($key, 0, -1));
compare("refusing a key, $_ wrong / all wrong", unit => 'us', goal => '<= 1.05', rounds => $rounds, ours => $time->($wrong{$_}), reference => $time->($unlike))
  for sort keys %wrong;
sql('DROP OWNED BY bench_application; DROP ROLE bench_application');
