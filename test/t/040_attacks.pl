# Whoever holds some right tries to run a function of his own with the rights of another. The function writes to the log
# as whom it runs, which no rollback takes back.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('attacks');
$node->init;
$node->append_conf('postgresql.conf', "fsync = off\nlog_statement = none\nlog_min_error_statement = panic");
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'pg_cron'\ncron.database_name = 'owned'");
$node->start;

my $database = 'postgres';
sub as
{
	my ($role, $sql) = @_;
	my ($status, $out, $error) = $node->psql($database, $sql, extra_params => [ '-U', $role ], on_error_stop => 0, on_error_die => 0);
	return wantarray ? ($out, $error) : $error;
}
sub prepare { my ($sql) = @_; return $node->safe_psql($database, $sql); }

# The roles as which the function has run since the last question.
my $seen = 0;
sub ran_as
{
	my $log = slurp_file($node->logfile, $seen);
	$seen = -s $node->logfile;
	my %roles = map { $_ => 1 } $log =~ /evil ran as (\w+)/g;
	return join ' ', sort keys %roles;
}

# The attack runs the function as nobody but the attackers, or not at all; and the statement ends with this error, if one
# is given.
sub harmless
{
	my ($name, $error, $expected, @attackers) = @_;
	my %others = map { $_ => 1 } split / /, ran_as();
	delete @others{ @attackers ? @attackers : 'mallory' };
	is(join(' ', sort keys %others), '', "$name: runs with the rights of nobody else");
	like($error, $expected, "$name: is refused") if $expected;
	return;
}

prepare('CREATE ROLE mallory LOGIN; CREATE ROLE app LOGIN; CREATE ROLE writer LOGIN; CREATE ROLE other LOGIN');

# In every database: the function, in all the shapes in which it may be called.
sub arm
{
	my ($name, $owner) = @_;
	prepare("CREATE SCHEMA evil AUTHORIZATION $owner; GRANT ALL ON SCHEMA evil TO PUBLIC");
	as($owner, q{
		CREATE FUNCTION evil.run() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE LOG 'evil ran as %', current_user; RETURN true; END $$;
		CREATE FUNCTION evil.run_trigger() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE LOG 'evil ran as %', current_user; RETURN coalesce(NEW, OLD); END $$;
		CREATE FUNCTION evil.run_text(text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RAISE LOG 'evil ran as %', current_user; RETURN $1; END $$;
		CREATE FUNCTION evil.run_equal(text, text) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE LOG 'evil ran as %', current_user; RETURN true; END $$;
		CREATE FUNCTION evil.run_integers(integer, integer) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE LOG 'evil ran as %', current_user; RETURN true; END $$});
	ran_as();
	return;
}

# First: a superuser owns the tables, and everything on them is granted to mallory.
$node->safe_psql('postgres', 'CREATE DATABASE granted');
$database = 'granted';
prepare(q{
	CREATE EXTENSION shortener CASCADE; CALL shortener.install();
	GRANT USAGE ON SCHEMA shortener TO mallory;
	GRANT ALL ON ALL TABLES IN SCHEMA shortener TO mallory;
	GRANT ALL ON ALL SEQUENCES IN SCHEMA shortener TO mallory;
	GRANT ALL ON ALL ROUTINES IN SCHEMA shortener TO mallory;
	SELECT shortener.add_domain('go.example'), shortener.block_host('evil.example'),
	       shortener.create_link('https://a.example/', alias => 'a'), shortener.create_link('https://a.example/', alias => 'z')});
arm('granted', 'mallory');
my @tables = split /\n/, prepare(q{SELECT relname FROM pg_class WHERE relnamespace = 'shortener'::regnamespace AND relkind = 'r'});
my @columns = split /\n/, prepare(q{SELECT attname FROM pg_attribute WHERE attrelid = 'shortener.link'::regclass AND attnum > 0});
my $number = 0;
sub insert_link { return "INSERT INTO shortener.link (workspace_id, short_code, original_url, redirect_status) VALUES (1, 'i" . ++$number . "', 'https://i.example/', 302);"; }
my $update_link = q{UPDATE shortener.link SET is_active = NOT is_active WHERE short_code = 'a';};
sub delete_link { my $insert = insert_link(); return $insert . "DELETE FROM shortener.link WHERE short_code = 'i$number';"; }
my $everything = q{
	SELECT shortener.shorten('https://b.example/' || random());
	SELECT * FROM shortener.shorten_many(ARRAY['https://b.example/' || random(), 'https://b.example/']);
	SELECT shortener.create_link('https://c.example/', alias => 'c' || (random() * 1e9)::int);
	SELECT shortener.update_link('a', url => 'https://d.example/' || random(), title => 't');
	SELECT shortener.disable_link('a'), shortener.enable_link('a'), shortener.delete_link('nothing');
	SELECT * FROM shortener.get_link('a'); SELECT count(*) FROM shortener.list_links(); SELECT count(*) FROM shortener.search_links('t');
	SELECT * FROM shortener.resolve('a', 'go.example'); SELECT * FROM shortener.resolve_many('{a,b}', '{go.example}');
	SELECT length(shortener.notification_key()); SELECT shortener.set_page_texts('a', 'b'); SELECT * FROM shortener.page_texts(1);};
sub everything { return $everything . insert_link() . $update_link . delete_link(); }

# A name of a transition table that is the attacker's own view.
my $views = join '', map { my $view = $_; "CREATE TEMP VIEW $view AS SELECT " . join(', ', map { "l.$_" } @columns) . " FROM shortener.link l WHERE evil.run();" } qw(old_link new_link);
my @functions = split /\n/, prepare(q{SELECT proname FROM pg_proc WHERE pronamespace = 'shortener'::regnamespace AND prorettype = 'trigger'::regtype ORDER BY 1});
my %statement = (INSERT => \&insert_link, UPDATE => sub { $update_link }, DELETE => \&delete_link);
for my $function (@functions)
{
	for my $event (sort keys %statement)
	{
		for my $timing ('BEFORE', 'AFTER')
		{
			for my $level ('ROW', 'STATEMENT')
			{
				my ($out, $error) = as('mallory', qq{$views
					CREATE TRIGGER mine $timing $event ON shortener.link FOR EACH $level EXECUTE FUNCTION shortener.$function();
					} . $statement{$event}->());
				harmless("$function as a trigger $timing $event of each $level without transition tables", $error);
				prepare('DROP TRIGGER IF EXISTS mine ON shortener.link');
			}
		}
	}
}
harmless('after_link_delete without transition tables', scalar as('mallory', qq{$views
	CREATE TRIGGER mine AFTER DELETE ON shortener.link FOR EACH STATEMENT EXECUTE FUNCTION shortener.after_link_delete();} . delete_link()),
	qr/trigger "mine" is not one of shortener.link/);
prepare('DROP TRIGGER mine ON shortener.link');
harmless('another table called link', scalar as('mallory', qq{$views
	CREATE TABLE evil.link (LIKE shortener.link INCLUDING DEFAULTS);
	CREATE TRIGGER mine AFTER DELETE ON evil.link REFERENCING OLD TABLE AS old_link FOR EACH STATEMENT EXECUTE FUNCTION shortener.after_link_delete();
	INSERT INTO evil.link SELECT * FROM shortener.link; DELETE FROM evil.link}), qr/trigger "mine" is not one of shortener.link/);
harmless('a second trigger with transition tables', scalar as('mallory', qq{$views
	CREATE TRIGGER mine AFTER DELETE ON shortener.link REFERENCING OLD TABLE AS link FOR EACH STATEMENT EXECUTE FUNCTION shortener.after_link_delete();}
	. delete_link()));
prepare('DROP TRIGGER mine ON shortener.link');

# Names that the attacker sees before ours: temporary objects, and a schema before pg_catalog.
my $shadows = join '', map { "CREATE TEMP VIEW $_ AS SELECT * FROM shortener.$_ WHERE evil.run();" } @tables;
harmless('temporary views called like our tables', scalar as('mallory', "$shadows SET search_path = pg_temp, public;" . everything()));
as('mallory', q{
	CREATE FUNCTION evil.lower(text) RETURNS text LANGUAGE sql AS 'SELECT evil.run_text($1)';
	CREATE FUNCTION evil.unnest(anyarray) RETURNS SETOF anyelement LANGUAGE sql AS 'SELECT (pg_catalog.unnest($1)) WHERE evil.run()';
	CREATE FUNCTION evil.coalesce(text, text) RETURNS text LANGUAGE sql AS 'SELECT evil.run_text($1)';
	CREATE FUNCTION evil.min(text) RETURNS text LANGUAGE sql AS 'SELECT evil.run_text($1)';
	CREATE FUNCTION evil.statement_timestamp() RETURNS timestamptz LANGUAGE sql AS 'SELECT now() WHERE evil.run()';
	CREATE FUNCTION evil.notification_key(shortener.installation) RETURNS bytea LANGUAGE sql AS 'SELECT NULL::bytea WHERE evil.run()';
	CREATE OPERATOR evil.= (LEFTARG = text, RIGHTARG = text, FUNCTION = evil.run_equal);
	CREATE OPERATOR evil.= (LEFTARG = integer, RIGHTARG = integer, FUNCTION = evil.run_integers);
	CREATE OPERATOR evil.< (LEFTARG = text, RIGHTARG = text, FUNCTION = evil.run_equal);
	CREATE TYPE evil.text AS (t pg_catalog.text);
	CREATE DOMAIN evil.bytea AS pg_catalog.bytea CHECK (evil.run())});
harmless('functions, operators and types in a schema before pg_catalog', scalar as('mallory', 'SET search_path = evil, pg_catalog;' . $everything));
harmless('arguments of types with casts and checks', scalar as('mallory', q{
	CREATE DOMAIN evil.url AS text CHECK (evil.run());
	CREATE TYPE evil.wrapped AS (t text);
	CREATE FUNCTION evil.unwrap(evil.wrapped) RETURNS text LANGUAGE sql AS 'SELECT evil.run_text(($1).t)';
	CREATE CAST (evil.wrapped AS text) WITH FUNCTION evil.unwrap AS IMPLICIT;
	SELECT shortener.shorten('https://domain.example/'::evil.url), shortener.shorten(ROW('https://cast.example/')::evil.wrapped),
		shortener.create_link('https://domain.example/'::evil.url, alias => 'domain'::evil.url, title => ROW('t')::evil.wrapped);
	SELECT * FROM shortener.shorten_many(ARRAY['https://domain.example/'::evil.url]::text[])}));
is(prepare('SELECT http_status FROM shortener.resolve(\'z\')'), 302, '... and ours work all the while');

# Triggers on the tables that we write as their owner.
for my $table (@tables)
{
	for my $level ('ROW', 'STATEMENT')
	{
		as('mallory', "CREATE TRIGGER mine BEFORE INSERT OR UPDATE OR DELETE ON shortener.$table FOR EACH $level EXECUTE FUNCTION evil.run_trigger();");
		harmless("a trigger of each $level on $table", scalar as('mallory', everything()));
		prepare("DROP TRIGGER mine ON shortener.$table");
	}
}
as('mallory', 'CREATE TRIGGER mine BEFORE INSERT ON shortener.retired_code FOR EACH ROW EXECUTE FUNCTION evil.run_trigger();');
harmless('a trigger on retired_code', scalar as('mallory', delete_link()), qr/table "shortener.retired_code" must not have trigger "mine"/);
prepare('DROP TRIGGER mine ON shortener.retired_code');
as('mallory', q{CREATE TABLE evil.reference (workspace_id int, short_code text COLLATE "C", FOREIGN KEY (workspace_id, short_code) REFERENCES shortener.retired_code);
	CREATE RULE mine AS ON INSERT TO evil.reference DO ALSO SELECT evil.run()});
harmless('a foreign key to retired_code', scalar as('mallory', delete_link()));
prepare('DROP TABLE evil.reference');

# The function of a trigger is ours, the condition is not.
for my $table (@tables)
{
	as('mallory', "CREATE TRIGGER mine BEFORE INSERT OR UPDATE OR DELETE ON shortener.$table FOR EACH STATEMENT WHEN (evil.run()) EXECUTE FUNCTION shortener.flush_caches();");
	harmless("a condition of a trigger on $table", scalar as('mallory', everything()));
	prepare("DROP TRIGGER mine ON shortener.$table");
}

# What a foreign key removes fires triggers in the statement that removes what it refers to.
my $delete_generated = q{SELECT shortener.shorten('https://generated.example/'); DELETE FROM shortener.link WHERE original_url = 'https://generated.example/';};
as('mallory', $delete_generated . q{
	CREATE TABLE evil.reference (workspace_id int, highest bigint, FOREIGN KEY (workspace_id, highest) REFERENCES shortener.retired_number ON DELETE CASCADE);
	CREATE TRIGGER mine AFTER DELETE ON evil.reference FOR EACH ROW EXECUTE FUNCTION evil.run_trigger();
	INSERT INTO evil.reference SELECT workspace_id, highest FROM shortener.retired_number});
is(prepare('SELECT count(*) > 0 FROM evil.reference'), 't', 'there is a row to remove');
harmless('a cascading foreign key to retired_number', scalar as('mallory', $delete_generated),
	qr/must not be part of constraint "reference_.*HINT:  ALTER TABLE evil.reference DROP CONSTRAINT/s);
prepare('DROP TABLE evil.reference');
is(scalar as('mallory', $delete_generated), '', '... without which the link is deleted');

# Jobs, which run as the owner of the tables when nobody looks.
sub jobs
{
	my $errors = '';
	for my $job ('CALL shortener.cleanup_expired(archive => true)', 'CALL shortener.rollup_clicks()', 'CALL shortener.maintain_clicks()',
		'CALL shortener.maintain_audit()', 'SELECT shortener.remove_expired_api_keys()', 'SELECT shortener.remove_unused_tags()')
	{
		$errors .= as('postgres', $job);
	}
	return $errors;
}
for my $table ('link', 'link_archive', 'link_tag', 'api_key', 'api_key_use', 'cleanup_run', 'user_agent')
{
	for my $condition ('', 'WHEN (evil.run())', q{WHEN (query_to_xml('SELECT evil.run()', true, true, '') IS NOT NULL)})
	{
		my $function = $condition ? 'shortener.flush_caches' : 'evil.run_trigger';
		as('mallory', "CREATE TRIGGER mine BEFORE INSERT OR UPDATE OR DELETE ON shortener.$table FOR EACH STATEMENT $condition EXECUTE FUNCTION $function();");
		harmless("a trigger on $table $condition, in jobs", jobs(), qr/trigger "mine" of table shortener.$table (calls|has a condition)/);
		prepare("DROP TRIGGER mine ON shortener.$table");
	}
}
prepare('UPDATE shortener.installation SET derived_objects = NULL');
as('mallory', 'CREATE TRIGGER mine BEFORE UPDATE ON shortener.installation FOR EACH STATEMENT EXECUTE FUNCTION evil.run_trigger()');
harmless('a trigger on installation, in install()', scalar as('postgres', 'CALL shortener.install()'), qr/trigger "mine" of table shortener.installation calls/);
prepare('DROP TRIGGER mine ON shortener.installation; CALL shortener.install()');
for my $key ([ 'link', '' ], [ 'api_key', '' ], [ 'link', 'reference' ])
{
	my ($table, $between) = @$key;
	prepare(q{INSERT INTO shortener.link (workspace_id, short_code, original_url, redirect_status, expires_at)
			VALUES (1, 'expired-' || nextval('shortener.link_id_seq'), 'https://e.example/', 302, now() - interval '40 days');
		INSERT INTO shortener.api_key (workspace_id, prefix, digest, name, scopes, expires_at)
			VALUES (1, 'sk_00000000', sha256('x'), 'x', '{links:read}', now() - interval '40 days') ON CONFLICT DO NOTHING});
	as('mallory', qq{CREATE TABLE evil.reference (workspace_id int, id bigint, FOREIGN KEY (workspace_id, id) REFERENCES shortener.$table ON DELETE CASCADE);
		CREATE TRIGGER mine AFTER DELETE ON evil.reference FOR EACH ROW EXECUTE FUNCTION evil.run_trigger();
		INSERT INTO evil.reference SELECT workspace_id, id FROM shortener.$table WHERE expires_at < now()});
	if ($between)
	{
		as('mallory', q{CREATE UNIQUE INDEX ON evil.reference (id); GRANT ALL ON evil.reference TO PUBLIC});
		prepare(q{CREATE TABLE public.between_them (workspace_id int, id bigint PRIMARY KEY, FOREIGN KEY (workspace_id, id) REFERENCES shortener.link ON DELETE CASCADE);
			INSERT INTO public.between_them SELECT workspace_id, id FROM shortener.link WHERE expires_at < now(); GRANT ALL ON public.between_them TO mallory});
		as('mallory', q{ALTER TABLE evil.reference DROP CONSTRAINT reference_workspace_id_id_fkey;
			ALTER TABLE evil.reference ADD CONSTRAINT reference_workspace_id_id_fkey FOREIGN KEY (id) REFERENCES public.between_them ON DELETE CASCADE});
	}
	is(prepare('SELECT count(*) > 0 FROM evil.reference'), 't', 'there is a row to remove');
	harmless("a cascading foreign key to $table $between, in jobs", jobs(), qr/foreign key "reference_workspace_id_id_fkey" is of table evil.reference of role "mallory"/);
	prepare('DROP TABLE evil.reference; DROP TABLE IF EXISTS public.between_them');
}
as('mallory', q{CREATE TYPE evil.number AS (n bigint);
	CREATE FUNCTION evil.to_bigint(evil.number) RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RAISE LOG 'evil ran as %', current_user; RETURN $1.n; END $$;
	CREATE CAST (evil.number AS bigint) WITH FUNCTION evil.to_bigint(evil.number) AS IMPLICIT;
	CREATE TABLE evil.reference (workspace_id int, id evil.number, CONSTRAINT cast_key FOREIGN KEY (workspace_id, id) REFERENCES shortener.link)});
harmless('a foreign key of a type that is cast, in jobs', jobs(), qr/foreign key "cast_key" is of table evil.reference of role "mallory"/);
as('mallory', q{DROP TABLE evil.reference; DROP TYPE evil.number CASCADE;
	CREATE TABLE evil.reference (workspace_id int, id bigint, FOREIGN KEY (workspace_id, id) REFERENCES shortener.link)});
is(jobs(), '', 'without all that, jobs do their work, though a table of another role refers to links');
prepare('DROP TABLE evil.reference');
is(prepare(q{SELECT (SELECT count(*) FROM shortener.link WHERE short_code ~ 'expired') + (SELECT count(*) FROM shortener.api_key)}), 0, '... and nothing is left');

# What only an owner may do is not his.
for my $statement (
	'CREATE TABLE evil.child () INHERITS (shortener.retired_code)', 'CREATE RULE mine AS ON INSERT TO shortener.retired_code DO ALSO SELECT evil.run()',
	'ALTER TABLE shortener.retired_code ALTER short_code SET DEFAULT evil.run_text(NULL)', 'CREATE POLICY mine ON shortener.link USING (evil.run())',
	'CREATE EVENT TRIGGER mine ON ddl_command_start EXECUTE FUNCTION evil.run_trigger()', 'CREATE INDEX ON shortener.link (evil.run_text(short_code))',
	'ALTER TABLE shortener.installation RENAME TO old', 'SET session_replication_role = replica', 'CREATE FUNCTION shortener.mine() RETURNS int LANGUAGE sql AS $$ SELECT 1 $$')
{
	harmless($statement, scalar as('mallory', $statement), qr/must be owner|permission denied/);
}

# Second: app, no superuser, owns the tables and is the attacker. Superusers and others use the functions that run with the
# rights of the owner of the tables.
$node->safe_psql('postgres', 'CREATE DATABASE owned');
$database = 'owned';
prepare(q{
	CREATE EXTENSION shortener CASCADE;
	GRANT USAGE, CREATE ON SCHEMA shortener TO app, other;
	GRANT EXECUTE ON ALL ROUTINES IN SCHEMA shortener TO app});
as('app', q{CALL shortener.install();
	GRANT SELECT, INSERT, UPDATE, DELETE ON shortener.link TO writer;
	GRANT SELECT ON shortener.reserved_code, shortener.retired_code, shortener.domain, shortener.workspace TO writer;
	GRANT USAGE ON SEQUENCE shortener.link_id_seq TO writer;
	SELECT shortener.create_link('https://a.example/', alias => 'a');});
prepare('GRANT USAGE ON SCHEMA shortener TO writer; GRANT EXECUTE ON FUNCTION shortener.notification_key() TO writer');
arm('owned', 'app');
my %reader = (
	installation => 'SELECT shortener.notification_key(); ' . $update_link, workspace => q{SELECT shortener.shorten('https://w.example/')},
	workspace_key => q{SELECT shortener.shorten('https://k.example/')}, domain => q{SELECT shortener.shorten('https://d.example/')},
	blocked_host => q{SELECT * FROM shortener.shorten_many('{https://b.example/}')}, reserved_code => insert_link(), retired_code => delete_link());
for my $table (sort keys %reader)
{
	my $cycle = sub {
		my ($name, $before, $after, $expected) = @_;
		my $error = as('app', "ALTER TABLE shortener.$table RENAME TO hidden; $before");
		diag($error) if $error =~ /ERROR/;
		for my $victim ('postgres', 'writer')
		{
			harmless("$name in place of $table, used by $victim", scalar as($victim, $reader{$table}), $expected, 'app');
		}
		as($_, $after) for 'app', 'other';
		as('app', "ALTER TABLE shortener.hidden RENAME TO $table");
		return;
	};
	$cycle->('a view', "CREATE VIEW shortener.$table AS SELECT * FROM shortener.hidden WHERE evil.run(); GRANT SELECT ON shortener.$table TO PUBLIC",
		"DROP VIEW shortener.$table", $table eq 'installation' ? undef : qr/"shortener.$table" is not a table/);
	as('app', "GRANT SELECT, REFERENCES ON shortener.$table TO other");
	my $stolen = sub {
		as('app', "ALTER TABLE shortener.$table RENAME TO hidden");
		as('other', "CREATE TABLE shortener.$table (LIKE shortener.hidden INCLUDING ALL); GRANT ALL ON shortener.$table TO PUBLIC; INSERT INTO shortener.$table SELECT * FROM shortener.hidden");
		for my $victim ('postgres', 'writer')
		{
			harmless("a table of another role in place of $table, used by $victim", scalar as($victim, $reader{$table}),
				$table eq 'installation' ? undef : qr/does not belong to role/, 'app', 'other');
		}
		as('other', "DROP TABLE shortener.$table");
		as('app', "ALTER TABLE shortener.hidden RENAME TO $table");
	};
	$stolen->();
}
is(prepare(q{SELECT length(shortener.notification_key())}), 16, 'all is in its place again');

# The owner's own expressions run as the owner, and do not get out of the section.
as('app', q{CREATE FUNCTION evil.escape() RETURNS integer LANGUAGE plpgsql AS $$
		BEGIN
			PERFORM evil.run();
			BEGIN SET ROLE postgres; PERFORM evil.run(); EXCEPTION WHEN OTHERS THEN END;
			BEGIN RESET ROLE; PERFORM evil.run(); EXCEPTION WHEN OTHERS THEN END;
			BEGIN SET SESSION AUTHORIZATION DEFAULT; PERFORM evil.run(); EXCEPTION WHEN OTHERS THEN END;
			BEGIN CREATE TEMP TABLE trap (a int); EXECUTE 'CREATE RULE r AS ON INSERT TO trap DO ALSO SELECT evil.run()'; RAISE LOG 'evil ran as trapper'; EXCEPTION WHEN OTHERS THEN END;
			RETURN 1;
		END $$;
	ALTER TABLE shortener.retired_code ADD escape integer DEFAULT evil.escape()});
for my $victim ('postgres', 'writer')
{
	my $error = as($victim, delete_link());
	is(ran_as(), 'app', "a default expression, run by $victim: runs as the owner of the table");
	is($error, '', '... and the link is deleted');
}
as('app', q{ALTER TABLE shortener.retired_code DROP escape; CREATE TABLE evil.child () INHERITS (shortener.retired_code)});
harmless('a child of retired_code', scalar as('writer', delete_link()), qr/has child tables/, 'app');

# What the owner's code sets in a section ends with it.
as('app', q{DROP TABLE evil.child;
	CREATE FUNCTION evil.set_path(integer) RETURNS integer LANGUAGE plpgsql IMMUTABLE AS $$
		BEGIN PERFORM evil.run(); PERFORM set_config('search_path', 'evil, pg_catalog', false), set_config('row_security', 'off', false); RETURN 1; END $$;
	CREATE FUNCTION evil.length(text) RETURNS integer LANGUAGE sql AS 'SELECT 1 WHERE evil.run()';
	CREATE INDEX mine ON shortener.workspace (slug) WHERE evil.set_path(1) = 1});
for my $victim ('postgres', 'writer')
{
	my ($out, $error) = as($victim, q{SELECT shortener.serving_workspace('x'); SELECT length('abc'::text); SHOW search_path; SHOW row_security});
	is($out, qq{1\n3\n"\$user", public\non}, "settings of $victim are as before");
	harmless("a setting, used by $victim", $error, undef, 'app');
}
as('app', 'DROP INDEX shortener.mine');

# Functions like ours that fit a call better, left in the schema by whoever might create there to install the tables.
prepare('CREATE EXTENSION pg_cron');
as('app', q{DO $do$
DECLARE
	f record;
	types text;
	body text;
BEGIN
	FOR f IN SELECT p.oid, p.proname, p.prokind, p.proretset, p.prorettype, pg_get_function_result(p.oid) AS result, p.pronargs,
			ARRAY(SELECT format_type(t, NULL) FROM unnest(p.proargtypes) WITH ORDINALITY a (t, n) ORDER BY n) AS types
		FROM pg_proc p WHERE p.pronamespace = 'shortener'::regnamespace AND p.prokind IN ('f', 'p') AND p.prorettype <> 'trigger'::regtype AND p.pronargs > 0
	LOOP
		FOR types IN
			WITH RECURSIVE variant (n, list) AS (
				SELECT 0, ARRAY[]::text[]
				UNION ALL SELECT v.n + 1, v.list || c.type FROM variant v
				CROSS JOIN LATERAL (SELECT f.types[v.n + 1] AS type UNION SELECT unnest(CASE WHEN v.n >= 4 THEN '{}' ELSE
					CASE f.types[v.n + 1] WHEN 'text' THEN '{name}' WHEN 'name' THEN '{text}' WHEN 'integer' THEN '{bigint}' WHEN 'bigint' THEN '{integer}'
						WHEN 'date' THEN '{timestamp,timestamptz}' WHEN 'interval' THEN '{text}' ELSE '{}' END::text[] END)) c
				WHERE v.n < f.pronargs)
			SELECT array_to_string(v.list, ', ') FROM variant v WHERE v.n = f.pronargs
			UNION SELECT array_to_string(array_fill('text'::text, ARRAY[n]), ', ') FROM generate_series(1, 7) n WHERE f.types = '{text[]}'
		LOOP
			body := 'BEGIN RAISE LOG ''evil ran as %'', current_user; '
				|| CASE WHEN f.prokind = 'p' OR f.proretset OR f.prorettype = 'void'::regtype THEN '' ELSE 'RETURN NULL; ' END || 'END';
			BEGIN
				EXECUTE CASE f.prokind WHEN 'p' THEN format('CREATE PROCEDURE shortener.%I(%s) LANGUAGE plpgsql AS %L', f.proname, types, body)
					ELSE format('CREATE FUNCTION shortener.%I(%s) RETURNS %s LANGUAGE plpgsql AS %L', f.proname, types, f.result, body) END;
			EXCEPTION WHEN OTHERS THEN -- ours
			END;
		END LOOP;
	END LOOP;
END $do$});
cmp_ok(prepare(q{SELECT count(*) FROM pg_proc WHERE pronamespace = 'shortener'::regnamespace AND proowner = 'app'::regrole}), '>', 100, 'functions like ours');
for my $call ('SELECT * FROM shortener.schedule_jobs()', 'SELECT * FROM shortener.scheduled_jobs', 'CALL shortener.purge_job_history()', 'SELECT shortener.unschedule_jobs()',
	'CALL shortener.cleanup_expired()', 'CALL shortener.rollup_clicks()', 'CALL shortener.maintain_clicks()', 'CALL shortener.maintain_audit()',
	'SELECT shortener.remove_expired_api_keys()', 'SELECT shortener.remove_unused_tags()', 'CALL shortener.install()', 'SELECT shortener.enable_audit()',
	q{SELECT shortener.grant_access('writer'::name, 'writer'::text, NULL::text)}, q{SELECT shortener.bind_role('writer'::name, 'x'::text)},
	q{SELECT shortener.canonical_host('a.example'::text)}, q{SELECT shortener.shorten('https://overloaded.example/'::text, NULL::text)},
	q{SELECT * FROM shortener.resolve('a'::text, NULL::text)}, q{SELECT shortener.current_workspace()}, 'SELECT length(shortener.notification_key())')
{
	harmless("functions like ours: $call", scalar as('postgres', $call), undef, 'app');
}
as('app', q{DO $do$ DECLARE f regprocedure; BEGIN FOR f IN SELECT oid FROM pg_proc WHERE pronamespace = 'shortener'::regnamespace AND proowner = 'app'::regrole
	LOOP EXECUTE format('DROP ROUTINE %s', f); END LOOP; END $do$});

# The owner of the database sets a search_path for all, with types and functions before those of pg_catalog.
prepare('ALTER DATABASE owned OWNER TO other');
as('other', q{CREATE SCHEMA early; GRANT USAGE ON SCHEMA early TO PUBLIC;
	CREATE FUNCTION early.run() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE LOG 'evil ran as %', current_user; RETURN true; END $$;
	CREATE FUNCTION early.concat_ws(text, text, text) RETURNS text LANGUAGE sql AS 'SELECT $2 WHERE early.run()';
	DO $$ DECLARE name text; BEGIN FOREACH name IN ARRAY '{timestamptz,date,text,name,tid,interval,bool,int4,int8}'::text[] LOOP
		EXECUTE format('CREATE DOMAIN early.%1$I AS pg_catalog.%1$I CHECK (early.run())', name); END LOOP; END $$;
	ALTER DATABASE owned SET search_path = early, pg_catalog});
as('app', q{CREATE TABLE evil.holder (workspace_id integer, id bigint, FOREIGN KEY (workspace_id, id) REFERENCES shortener.link);
	INSERT INTO shortener.link (workspace_id, short_code, original_url, redirect_status, expires_at)
		VALUES (1, 'held', 'https://e.example/', 302, pg_catalog.now() - interval '40 days');
	INSERT INTO evil.holder SELECT workspace_id, id FROM shortener.link WHERE short_code = 'held'});
ran_as();
for my $job (prepare('SELECT command FROM shortener.job_definitions()') =~ /(.+)/g, 'SELECT * FROM shortener.scheduled_jobs')
{
	for my $victim ('app', 'postgres')
	{
		harmless("a search_path of the database: $job by $victim", scalar as($victim, $job),
			$job =~ /cleanup/ && $victim eq 'app' ? qr/violates foreign key constraint/ : undef, 'other');
	}
}
as('other', 'ALTER DATABASE owned RESET search_path');
as('app', 'DROP TABLE evil.holder');

# A table whose columns are not what they were raises an error and does not end the server.
my ($key) = as('app', q{SELECT shortener.create_api_key('key')});
prepare('GRANT EXECUTE ON FUNCTION shortener.authenticate(text, boolean) TO writer');
is((as('writer', "SELECT shortener.authenticate('$key')"))[0], 'default', 'a key');
for my $change ('api_key_use ALTER last_used_at DROP DEFAULT, ALTER last_used_at TYPE text', q{api_key_use ALTER uses TYPE numeric},
	q{api_key DROP CONSTRAINT api_key_scopes_check, ALTER scopes TYPE integer USING 17}, q{api_key ALTER scopes TYPE integer[] USING '{17}'},
	'workspace ALTER slug DROP DEFAULT, DROP CONSTRAINT workspace_slug_check, ALTER slug TYPE name')
{
	as('app', "DROP VIEW IF EXISTS shortener.api_keys, shortener.workspace_settings, shortener.link_overview; ALTER TABLE shortener.$change");
	like(scalar as('writer', "SELECT shortener.authenticate('$key')"), qr/ERROR|^$/, "$change: an error at most");
	is(prepare('SELECT 1'), 1, '... and the server is there');
	like(slurp_file($node->logfile), qr/\A(?!.*terminated by signal)/s, '... as before');
}
as('app', q{ALTER TABLE shortener.workspace ALTER slug TYPE text COLLATE "C"});
as('app', q{ALTER TABLE shortener.installation DROP CONSTRAINT installation_notification_key_check;
	ALTER TABLE shortener.installation ALTER notification_key TYPE bigint USING 1});
like(scalar as('postgres', 'SELECT shortener.notification_key()'), qr/ERROR/, 'a key of another type');
as('app', q{DROP VIEW shortener.active_links; ALTER TABLE shortener.link ALTER redirect_status TYPE bigint});
like(scalar as('writer', insert_link()), qr/has no column "redirect_status" of type smallint/, 'a column of another type');
as('app', q{ALTER TABLE shortener.link ALTER redirect_status TYPE smallint; ALTER TABLE shortener.link ALTER original_url DROP NOT NULL});
like(scalar as('writer', q{INSERT INTO shortener.link (workspace_id, short_code, redirect_status) VALUES (1, 'null', 302)}), qr/null value in column "original_url"/, 'a NULL where none was');
is(prepare('SELECT 1'), 1, 'the server is there');
unlike(slurp_file($node->logfile), qr/terminated by signal/, '... all the time');

# Third: the extension goes, the tables stay, and what their owner leaves with them is found where hll is meant.
$node->safe_psql('postgres', 'CREATE DATABASE gone');
$database = 'gone';
prepare('CREATE EXTENSION shortener CASCADE; GRANT USAGE, CREATE ON SCHEMA shortener TO app; GRANT EXECUTE ON ALL ROUTINES IN SCHEMA shortener TO app');
as('app', 'CALL shortener.install()');
arm('gone', 'app');
prepare('DROP EXTENSION shortener CASCADE');
for my $left (
	[ 'FUNCTION shortener.hll_cardinality(hll)', q{CREATE FUNCTION shortener.hll_cardinality(hll) RETURNS double precision LANGUAGE sql IMMUTABLE AS 'SELECT 1.0 WHERE evil.run()'} ],
	[ 'DOMAIN shortener.hll_hashval', 'CREATE DOMAIN shortener.hll_hashval AS bigint CHECK (evil.run())' ],
	[ 'TABLE shortener.hll', 'CREATE TABLE shortener.hll (a int)' ])
{
	my ($object, $create) = @$left;
	as('app', $create);
	my (undef, $error) = as('postgres', 'CREATE EXTENSION shortener; SELECT shortener.visitor_count(public.hll_empty()); SELECT shortener.visitor_key(1)');
	harmless("$object left behind", $error, qr/schema shortener contains .* of role app/, 'app');
	prepare('DROP EXTENSION IF EXISTS shortener CASCADE');
	as('app', "DROP $object");
}
is(scalar as('postgres', 'CREATE EXTENSION shortener') =~ /ERROR/, '', 'without them the extension comes back');

$node->stop;
done_testing();
