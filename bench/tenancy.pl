# Tenancy: what row-level security and authenticate() cost shorten, what the audit costs it, and whether the time of a wrong key tells where it differs.
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
my $new = 4 * $rounds * $clients * $transactions;
sql("CREATE UNLOGGED TABLE new AS SELECT n, rpad('https://new.example/' || n || '/', 100, 'x') AS url FROM generate_series(1, $new) n");
sql("CREATE UNLOGGED TABLE known AS SELECT n, rpad('https://example.com/' || n || '/', 100, 'x') AS url FROM generate_series(1, $known) n");
sql("ALTER TABLE $_ ADD PRIMARY KEY (n)"), sql("GRANT SELECT ON $_ TO bench_application"), sql("VACUUM ANALYZE $_") for 'new', 'known';
sql('VACUUM ANALYZE shortener.link');
my $taken = 0;
sub links { return sql('SELECT count(*) FROM shortener.link WHERE workspace_id = 2'); }

# Transactions that shorten one URL: as the owner of the tables, or as a tenant with an API key.
my %side = (
	tenant => { role => 'bench_application', begin => "BEGIN;\nSELECT shortener.authenticate(:key);\n", workspace => '' },
	owner => { role => 'postgres', begin => "BEGIN;\n", workspace => ", 'acme'" });
sub shorten_known
{
	my ($name) = @_;
	my $side = $side{$name};
	local $ENV{PGUSER} = $side->{role};
	return pgbench("\\set n random(1, $known)\n$side->{begin}SELECT shortener.shorten((SELECT url FROM known WHERE n = :n)$side->{workspace});\nCOMMIT;",
		clients => $clients, protocol => 'prepared', seconds => $seconds, define => ["key=$key"])->{tps};
}
sub shorten_new
{
	my ($name) = @_;
	my $side = $side{$name};
	my $count = $clients * $transactions;
	my $before = links();
	my $tps = do
	{
		local $ENV{PGUSER} = $side->{role};
		pgbench("\\set i :i + 1\n\\set n $taken + :client_id * $transactions + :i\n$side->{begin}SELECT shortener.shorten((SELECT url FROM new WHERE n = :n)$side->{workspace});\nCOMMIT;",
			clients => $clients, protocol => 'prepared', transactions => $transactions, define => [ "key=$key", 'i=0' ])->{tps};
	};
	$taken += $count;
	die 'not every URL has become a link of the tenant' if links() != $before + $count;
	return $tps;
}
compare("authenticate and shorten of new URLs / without, $clients clients",
	unit => '/s', goal => '>= 0.7', rounds => $rounds, ours => sub { shorten_new('tenant') }, reference => sub { shorten_new('owner') });
compare("authenticate and shorten of known URLs / without, $clients clients",
	unit => '/s', goal => '>= 0.7', rounds => $rounds, ours => sub { shorten_known('tenant') }, reference => sub { shorten_known('owner') });
die 'the tenant has made links that the owner has not' if links() != $known + $taken;

compare("shorten of new URLs with the audit / without, $clients clients",
	unit => '/s', rounds => $rounds,
	ours => sub { sql('SELECT shortener.enable_audit()'); my $tps = shorten_new('owner'); sql('SELECT shortener.disable_audit()'); return $tps },
	reference => sub { shorten_new('owner') });
die 'entries are missing' if sql('SELECT count(*) FROM shortener.link_audit') != $rounds * $clients * $transactions;

# Wrong keys, a thousand to a transaction, against one that shares nothing with any key.
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
	'its first character' => $wrong_at->(3),
	'the last one of its display prefix' => $wrong_at->(10),
	'the one after it' => $wrong_at->(11),
	'its last character' => $wrong_at->(length($key) - 1),
	'its length' => substr($key, 0, -1));
compare("time of a key that is wrong in $_ / in all", unit => 'us', goal => '<= 1.05', rounds => $rounds, ours => $time->($wrong{$_}), reference => $time->($unlike))
  for sort keys %wrong;
sql('DROP OWNED BY bench_application; DROP ROLE bench_application');
