# install(): who may call it on whose tables, and what it locks.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('install');
$node->init;
$node->append_conf('postgresql.conf', 'fsync = off');
$node->start;

my $database = 'postgres';
sub value { my ($sql, @options) = @_; return $node->safe_psql($database, $sql, @options); }

# What a statement writes to standard error.
sub said
{
	my ($sql, %options) = @_;
	my ($status, $out, $error) = $node->psql($database, $sql, %options);
	return $error;
}

# A database of its own.
sub fresh
{
	my ($name, $owner) = @_;
	$database = 'postgres';
	value("CREATE DATABASE $name OWNER $owner");
	$database = $name;
	return;
}

value(q{CREATE ROLE app LOGIN; CREATE ROLE other LOGIN; CREATE ROLE writer LOGIN; CREATE ROLE redirector LOGIN; CREATE ROLE boss LOGIN SUPERUSER});

# A role without any special right owns the tables.
fresh('app', 'postgres');
value(q{CREATE EXTENSION shortener CASCADE});
like(said(q{SET ROLE app; CALL shortener.install()}), qr/permission denied/, 'without the grants a role cannot install');
value(q{
	GRANT USAGE, CREATE ON SCHEMA shortener TO app WITH GRANT OPTION;
	GRANT EXECUTE ON ALL ROUTINES IN SCHEMA shortener TO app WITH GRANT OPTION});
my @as_app = (extra_params => [ '-U', 'app' ]);
value(q{
	CALL shortener.install();
	REVOKE CREATE ON SCHEMA shortener FROM app;
	SELECT shortener.add_domain('go.example'), shortener.block_host('evil.example');
	GRANT USAGE ON SCHEMA shortener TO writer, redirector;
	GRANT SELECT, INSERT, UPDATE, DELETE ON shortener.link TO writer;
	GRANT SELECT ON shortener.reserved_code, shortener.retired_code, shortener.domain TO writer;
	GRANT SELECT (id, slug) ON shortener.workspace TO writer;
	GRANT USAGE ON SEQUENCE shortener.link_id_seq TO writer;
	GRANT SELECT ON shortener.link, shortener.domain, shortener.workspace, shortener.retired_code TO redirector;
	GRANT EXECUTE ON FUNCTION shortener.notification_key() TO redirector}, @as_app);
pass('with them it installs, and grants to others');
is(value(q{SELECT DISTINCT relowner::regrole FROM pg_class WHERE relnamespace = 'shortener'::regnamespace AND relkind = 'r'}), 'app', 'and owns the tables');
my $code = value(q{SELECT shortener.shorten('https://a.example/')}, extra_params => [ '-U', 'writer' ]);
is(value(q{SELECT short_code FROM shortener.shorten_many('{https://a.example/}')}, extra_params => [ '-U', 'writer' ]), $code, 'a writer writes');
is(value(q{SELECT shortener.update_link(short_code, title => 'A') FROM shortener.create_link('https://a.example/', alias => 'a')}, extra_params => [ '-U', 'writer' ]), 't', '... and changes');
is(value(q{DELETE FROM shortener.link WHERE short_code = 'a' RETURNING short_code}, extra_params => [ '-U', 'writer' ]), 'a', '... and deletes');
like(said(q{SELECT shortener.shorten('https://evil.example/')}, extra_params => [ '-U', 'writer' ]), qr/blocked host/, '... under the rules of the owner');
is(value(qq{SELECT http_status, location, length(shortener.notification_key()) FROM shortener.resolve('$code', 'go.example')}, extra_params => [ '-U', 'redirector' ]),
	'302|https://a.example/|16', 'a redirector redirects');
is(value(q{SELECT http_status FROM shortener.resolve('a')}, extra_params => [ '-U', 'redirector' ]), '410', '... and knows what is retired');
value(q{CALL shortener.cleanup_expired()}, @as_app);
pass('the owner cleans up');

# Not on the tables of another role, not even as a superuser.
for my $role ('postgres', 'boss')
{
	my $error = said('CALL shortener.install()', extra_params => [ '-U', $role ]);
	like($error, qr/tables of shortener belong to role "app"/, "$role cannot install over the tables of another role");
	like($error, qr/HINT:  Call install\(\) as role "app"/, '... and reads who can');
}

# The extension goes and comes back: functions do not work without triggers in silence.
like(said('DROP EXTENSION shortener CASCADE; CREATE EXTENSION shortener'), qr/WARNING:  the tables of shortener belong to role "app"/, 'CREATE EXTENSION over the tables of another role says so');
is(value(q{SELECT count(*) FROM pg_trigger WHERE tgrelid = 'shortener.link'::regclass AND NOT tgisinternal}), 0, '... and does not touch them');
like(said($_), qr/triggers of the tables of shortener are missing.*HINT:  CALL shortener.install\(\);/s, "until then: $_")
  for q{SELECT shortener.shorten('https://b.example/')}, q{SELECT * FROM shortener.resolve('a')}, q{SELECT shortener.delete_link('a')},
  q{SELECT * FROM shortener.shorten_many('{}')};
value(q{GRANT EXECUTE ON ALL ROUTINES IN SCHEMA shortener TO app WITH GRANT OPTION});
value(q{CALL shortener.install()}, @as_app);
is(value(q{SELECT shortener.shorten('https://a.example/')}, @as_app), $code, 'install() by their owner makes them work again');
value(q{DROP EXTENSION shortener CASCADE});

# The schema was there before, and belongs to somebody.
fresh('prepared', 'other');
value(q{CREATE SCHEMA shortener}, extra_params => [ '-U', 'other' ]);
like(said('CREATE EXTENSION shortener CASCADE'), qr/schema shortener belongs to another role, other/, 'CREATE EXTENSION refuses a schema of another role');
value(q{ALTER SCHEMA shortener OWNER TO postgres; GRANT CREATE, USAGE ON SCHEMA shortener TO other; CREATE EXTENSION shortener CASCADE});
value(q{CREATE FUNCTION shortener.create_workspace(text, text) RETURNS bigint LANGUAGE sql AS 'SELECT 1/0'}, extra_params => [ '-U', 'other' ]);
like(said('CALL shortener.install()'), qr/schema shortener contains function shortener.create_workspace\(text,text\) of role "other"/,
	'install() refuses a function of another role');
value(q{DROP FUNCTION shortener.create_workspace(text, text)});
value(q{CREATE TABLE shortener.workspace (id int)}, extra_params => [ '-U', 'other' ]);
like(said('CALL shortener.install()'), qr/schema shortener contains .*workspace.* of role "other"/, '... and a table');
value(q{DROP TABLE shortener.workspace; CREATE VIEW shortener.installation AS SELECT 1 AS schema_version}, extra_params => [ '-U', 'other' ]);
like(said('CALL shortener.install()'), qr/belong to role "other"/, '... and a view in place of the first table');
value(q{DROP VIEW shortener.installation; CREATE OPERATOR shortener.= (LEFTARG = name, RIGHTARG = text, FUNCTION = pg_catalog.nameeqtext)}, extra_params => [ '-U', 'other' ]);
like(said('CALL shortener.install()'), qr/schema shortener contains operator/, '... and an operator');
value(q{DROP OPERATOR shortener.= (name, text); CALL shortener.install()});
pass('and is content with the rest');

# Locks.
my $writer = $node->background_psql($database);
$writer->query_safe(q{BEGIN; SELECT shortener.shorten('https://open.example/')});
my $blocker = $node->background_psql($database, extra_params => [ '-U', 'writer' ]);
$blocker->query_safe(q{SELECT pg_advisory_lock(hashtextextended('shortener.install', 0))});
is(said(q{SET statement_timeout = '20s'; SET lock_timeout = '1s'; CALL shortener.install()}), '', 'with nothing to do it waits for nobody');
is(value(q{BEGIN; CALL shortener.install(); SELECT count(*) FROM pg_locks l JOIN pg_class c ON c.oid = l.relation
	WHERE l.pid = pg_backend_pid() AND c.relnamespace = 'shortener'::regnamespace AND l.mode <> 'AccessShareLock'; COMMIT}), 0, '... and takes no lock but that of a reader');
value(q{DROP VIEW shortener.active_links});
my $error = said(q{CALL shortener.install()});
like($error, qr/could not lock the tables of shortener within 3s/, 'with something to do it does not wait for long');
like($error, qr/HINT:  End long transactions/, '... and says what to do');
$writer->query_safe('COMMIT');
$writer->quit;
is(said(q{CALL shortener.install()}), '', 'when the transaction has ended it goes on');
is(value(q{SELECT count(*) FROM shortener.active_links}), 1, '... and makes the view anew');
$blocker->quit;

# Two at once.
fresh('twice', 'postgres');
value(q{CREATE EXTENSION shortener CASCADE});
my $first = $node->background_psql($database);
$first->query_safe('BEGIN; CALL shortener.install()');
my $second = $node->background_psql($database, on_error_stop => 0);
$second->query_until(qr/started/, "\\echo started\nCALL shortener.install();\n");
$node->poll_query_until($database, q{SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock'}) or die 'nobody waits';
$first->query_safe('COMMIT');
$second->query('SELECT 1');
like($second->{stderr}, qr/^(|.*another session has installed shortener meanwhile.*)$/s, 'of two at once one installs');
is(value(q{SELECT count(*) FROM shortener.workspace}), 1, '... once');
is(said('CALL shortener.install()'), '', 'and again is fine');
$_->quit for $first, $second;

$node->stop;
done_testing();
