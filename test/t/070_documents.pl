# The documents: every SQL and shell snippet runs, and the reference names what the catalog has.
#
# The snippets of a document run in order, in a database with the tables installed; one that creates the extension begins in
# a new database. What a statement returns is compared with a comment `-- => 302, https://example.com/` behind or below it
# (columns parted by commas, rows by semicolons), what a whole snippet prints with a `text` block that follows it at once.
# Languages: `sql`; `sql subscriber` for a second cluster; `sh`; `console` for shell that would change this machine, each
# line of which is listed below; and those that are no code.
use strict;
use warnings;

use Cwd qw(getcwd);
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use Frontend;

my $checkout = getcwd;
my @documents = (glob('*.md'), glob('docs/*.md'));

# Lines of `console` that are not run, and why. `make` is checked for its targets.
my %elsewhere = (
	qr/^(?:make && )?sudo make install$/ => 'changes the machine; tools/stage installs the same into a directory',
	qr/^sudo systemctl / => 'changes the machine, and needs systemd',
	qr/^git (?:tag|push|diff|rebase|switch|clone) / => 'is about the repository of the reader',
	qr/^cd shortener$/ => 'follows git clone',
	qr/^curl http:\/\/127\.0\.0\.1:8081\/readyz$/ => 'follows sudo systemctl; 020_redirect.pl asks',
	qr/^(?:test|bench)\/run / => 'is what runs this test, or takes long');
my %no_code = map { $_ => 1 } qw(text ini conf);

my $node = PostgreSQL::Test::Cluster->new('documents');
$node->init(allows_streaming => 'logical');
$node->append_conf('postgresql.conf', <<'CONF');
fsync = off
max_connections = 50
shared_preload_libraries = 'pg_cron'
cron.database_name = 'app'
cron.use_background_workers = on
CONF
$node->start;
my $subscriber;

# What the documents leave to their reader.
my $readers_own = 'dbname=app host=' . $node->host . ' port=' . $node->port;
my @readers_own = (
	[ qr/host=(?:db\.example|publisher|standby1,standby2|primary,standby1) dbname=\w+(?: user=\w+)?/ => $readers_own ]);
my @frontend_ports = (PostgreSQL::Test::Cluster::get_free_port(), PostgreSQL::Test::Cluster::get_free_port());

sub with_readers_own
{
	my ($snippet) = @_;
	$snippet =~ s/$_->[0]/$_->[1]/g for @readers_own;
	$snippet =~ s/127\.0\.0\.1:808([01])/127.0.0.1:$frontend_ports[$1]/g;
	return $snippet;
}

# Fences of a document: line, language, word after it, content, and the text block that follows at once.
sub fences
{
	my ($file) = @_;
	my (@fences, $open);
	my @lines = split /\n/, slurp_file($file);
	my $last_end = -10;
	for my $number (1 .. @lines)
	{
		my $line = $lines[ $number - 1 ];
		if (!$open && $line =~ /^(\s*)```(\w*)(?: (\w+))?$/)
		{
			$open = { file => $file, line => $number, indent => $1, language => $2, word => $3 // '', content => '' };
			$open->{follows} = $fences[-1] if $2 eq 'text' && $number - $last_end <= 2;
		}
		elsif ($open && $line =~ /^\s*```$/)
		{
			push @fences, $open;
			$last_end = $number;
			undef $open;
		}
		elsif ($open)
		{
			$line =~ s/^$open->{indent}//;
			$open->{content} .= "$line\n";
		}
	}
	die "$file: a fence is not closed" if $open;
	$_->{follows}{output} = $_->{content} for grep { $_->{follows} } @fences;
	return @fences;
}

# Statements of a snippet, each with what is said that it returns.
sub statements
{
	my ($content) = @_;
	my (@statements, $quoted);
	my $text = '';
	for my $line (split /\n/, $content)
	{
		if ($text eq '' && $line =~ /^-- => (.*)$/)
		{
			$statements[-1]{returns} = $1;
			next;
		}
		$text .= "$line\n";
		my $dollars = () = $line =~ /\$\$/g;
		$quoted = !$quoted if $dollars % 2;
		next if $quoted || $line !~ /;\s*(?:--.*)?$/;
		my ($returns) = $line =~ /-- => (.*)$/;
		push @statements, { text => $text, returns => $returns };
		$text = '';
	}
	push @statements, { text => $text } if $text =~ /^\s*[^\s-]/m;
	return @statements;
}

sub fresh_database
{
	my ($cluster) = @_;
	$cluster->safe_psql('postgres', 'DROP DATABASE IF EXISTS app WITH (FORCE)');
	$cluster->safe_psql('postgres', 'CREATE DATABASE app');
	return;
}

sub run_sql
{
	my ($fence, $name) = @_;
	my $cluster = $node;
	if ($fence->{word} eq 'subscriber')
	{
		if (!$subscriber)
		{
			$subscriber = PostgreSQL::Test::Cluster->new('subscriber');
			$subscriber->init(allows_streaming => 'logical');
			$subscriber->append_conf('postgresql.conf', 'fsync = off');
			$subscriber->start;
			fresh_database($subscriber);
		}
		$cluster = $subscriber;
	}
	elsif ($fence->{content} =~ /CREATE EXTENSION (?:IF NOT EXISTS )?shortener/)
	{
		fresh_database($cluster);
	}

	my @statements = statements(with_readers_own($fence->{content}));
	my $script = join "\\echo @@\n", map { $_->{text} } @statements;
	my @options = defined $fence->{output} ? () : ('-A', '-t', '-F', ', ');
	my ($out, $error) = ('', '');
	IPC::Run::run([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', @options, '-d', $cluster->connstr('app') ],
		'<', \$script, '>', \$out, '2>', \$error, IPC::Run::timeout(120));
	my $failed = $?;
	ok(!$failed, "$name runs") or diag($error);
	return if $failed;

	if (defined $fence->{output})
	{
		s/[ \t]+$//mg, s/\n+\z/\n/ for $out, $fence->{output};
		$out =~ s/^@@\n//mg;
		is($out, $fence->{output}, "$name prints what follows it");
	}
	my @results = split /^@@\n/m, $out, -1;
	for my $number (0 .. $#statements)
	{
		next unless defined $statements[$number]{returns};
		chomp(my $result = $results[$number] // '');
		$result =~ s/\n/; /g;
		is($result, $statements[$number]{returns}, "$name: $statements[$number]{text}");
	}
	return;
}

my $directory = PostgreSQL::Test::Utils::tempdir();
my @servers;

sub run_shell
{
	my ($fence, $name) = @_;
	my $script = with_readers_own($fence->{content});
	local %ENV = (%ENV, PGHOST => $node->host, PGPORT => $node->port, PGDATABASE => 'app');
	(my $programs = $ENV{SHORTENERD}) =~ s{[^/]*$}{};
	$ENV{PATH} = "$programs:$ENV{PATH}";

	# A server stays until the next one, or to the end of the document, for the snippets that follow it.
	my ($server) = $script =~ s/^(shortenerd .*)\n//m ? $1 : ();
	if (defined $server)
	{
		stop_servers();
		$server .= " --admin-listen 127.0.0.1:$frontend_ports[1]" unless $server =~ /--admin-listen/;
		$server .= " --listen 127.0.0.1:$frontend_ports[0]" unless $server =~ /--listen/;
		my $log = "$directory/shortenerd.log";
		push @servers, IPC::Run::start([ 'bash', '-c', "exec $server" ], '<', '/dev/null', '>', $log, '2>&1');
		ok(eventually { slurp_file($log) =~ /listening for changes/ }, "$name: the server starts") or diag(slurp_file($log));
	}
	return if $script !~ /\S/;
	my $output = '';
	IPC::Run::run([ 'bash', '-euc', "cd '$directory'; $script" ], '<', '/dev/null', '>', \$output, '2>&1', IPC::Run::timeout(120));
	ok(!$?, "$name runs") or diag($output);
	is($output, $fence->{output}, "$name prints what follows it") if defined $fence->{output};
	return;
}

sub stop_servers
{
	$_->signal('TERM'), $_->finish for splice @servers;
	return;
}

my %target = map { $_ => 1 } slurp_file('Makefile') =~ /^([a-z-]+):/mg, 'all', 'install', 'clean';

sub check_console
{
	my ($fence, $name) = @_;
	for (split /\n/, $fence->{content})
	{
		my ($command) = /^(.*?)\s*(?:# .*)?$/;
		next if $command eq '';
		if ($command =~ /^(?:\w+=\S+ )*make\b([^&]*)$/)
		{
			my @unknown = grep { !/=|^-/ && !$target{$_} } split ' ', $1;
			is("@unknown", '', "$name: $command: the Makefile has these targets");
		}
		else
		{
			ok((grep { $command =~ $_ } keys %elsewhere), "$name: there is a reason not to run: $command");
		}
	}
	return;
}

for my $file (@documents)
{
	my @fences = fences($file);
	my $begun;
	for my $fence (@fences)
	{
		my $name = "$file:$fence->{line}";
		my $language = $fence->{language};
		if (!$begun && ($language eq 'sql' || $language eq 'sh'))
		{
			fresh_database($node);
			$node->safe_psql('app', 'CREATE EXTENSION shortener CASCADE; CREATE EXTENSION pg_cron; CALL shortener.install()');
			$begun = 1;
		}
		if ($language eq 'sql') { run_sql($fence, $name) }
		elsif ($language eq 'sh') { run_shell($fence, $name) }
		elsif ($language eq 'console') { check_console($fence, $name) }
		else { ok($no_code{$language}, "$name: \"$language\" is a language that is run, or no code") }
	}
	stop_servers();
	next unless $begun;
	$node->safe_psql('postgres', 'ALTER SYSTEM RESET ALL');
	$node->reload;
	fresh_database($node);
	$node->safe_psql('postgres', $_) for map { qq{DROP ROLE "$_"} } split /\n/,
	  $node->safe_psql('postgres', q{SELECT rolname FROM pg_roles WHERE rolname !~ '^pg_' AND NOT rolsuper});
}

# Links between documents lead somewhere.
sub anchors
{
	my ($file) = @_;
	my %anchors;
	for my $heading (slurp_file($file) =~ /^#+ (.*)$/mg)
	{
		(my $anchor = lc $heading) =~ s/[^\w -]//g;
		$anchor =~ tr/ /-/;
		$anchors{$anchor} = 1;
	}
	return \%anchors;
}
for my $file (@documents)
{
	my ($folder) = $file =~ m{^(.*/)?};
	$folder //= '';
	for my $link (slurp_file($file) =~ /\]\(([^)\s]+)\)/g)
	{
		next if $link =~ /^https?:/;
		my ($target, $anchor) = $link =~ /^([^#]*)(?:#(.*))?$/;
		my $path = $target eq '' ? $file : $folder . $target;
		ok(-e $path, "$file: $link is there") or next;
		ok(anchors($path)->{$anchor}, "$file: $link has that heading") if defined $anchor;
	}
}

# Files that documents name are there.
for my $file (@documents)
{
	for my $path (slurp_file($file) =~ m{`((?:bench|docs|extension|frontend|sql|test|tools)/[\w./-]+)`}g)
	{
		next if $path =~ /OLD--NEW|VERSION/;
		ok(-e $path, "$file: $path is there");
	}
}

# The options of shortenerd.
my ($status, $help) = run_shortenerd({}, '--help');
my ($options) = slurp_file('docs/frontend.md') =~ /^## Options\n(.*?)^## /ms or die 'docs/frontend.md has no section "Options"';
my @in_table = map { /`([a-z-]+)`/g } map { /^\| (`[^|]*) \|/ } split /\n/, $options;
is_deeply([ sort @in_table ], [ sort grep { !/^(?:help|version|config)$/ } $help =~ /^ *--([a-z-]+)/mg ], 'docs/frontend.md has every option of --help');

# The reference against the catalog.
fresh_database($node);
$node->safe_psql('app', 'CREATE EXTENSION shortener CASCADE; CALL shortener.install()');
sub rows { return split /\n/, $node->safe_psql('app', $_[0]); }

my ($public, $internal) = slurp_file('docs/reference.md') =~ /^(.*)^## Internal functions\n(.*)/ms or die 'docs/reference.md has no section "Internal functions"';
my %documented = map { $_ => 1 } $public =~ /^#### `(.*)`$/mg;
my %internal = map { $_ => 1 } $internal =~ /`(\w+)`/g;

my (%present, %names);
for (rows(q{
	SELECT p.proname, replace(replace(p.proname || '(' || a.arguments || ')' || coalesce(' → ' || pg_get_function_result(p.oid), ''),
		'timestamp with time zone', 'timestamptz'), 'timestamp without time zone', 'timestamp')
	FROM pg_proc p, regexp_replace(pg_get_function_arguments(p.oid), '\mIN ', '', 'g') i (arguments),
		regexp_replace(i.arguments, ' DEFAULT (''[^'']*''|[^,:]+)(::[a-z ]+(\[\])?)?', ' = \1', 'g') a (arguments)
	WHERE p.pronamespace = 'shortener'::regnamespace AND p.prorettype <> 'trigger'::regtype
	ORDER BY p.proname}))
{
	my ($function, $signature) = split /\|/, $_, 2;
	$names{$function} = 1;
	$present{$signature} = 1;
	ok(!$documented{$signature} != !$internal{$function}, "docs/reference.md has, or lists as internal: $signature");
}
is_deeply([ grep { !$present{$_} } sort keys %documented ], [], 'docs/reference.md has no function that is not there');
is_deeply([ grep { !$names{$_} } sort keys %internal ], [], '... and lists none as internal');

my %settings = map { $_ => 1 } $public =~ /^\| `(shortener\.\w+)` \|/mg;
is_deeply([ sort keys %settings ],
	[ rows(q{LOAD 'shortener'; SELECT name FROM pg_settings WHERE name LIKE 'shortener.%' ORDER BY name COLLATE "C"}) ],
	'docs/reference.md has every setting');
my ($relations) = $public =~ /^## Tables and views\n(.*?)(?=^## |\z)/ms or die 'docs/reference.md has no section "Tables and views"';
my %relations = map { $_ => 1 } $relations =~ /^\| `(\w+)` \|/mg;
is_deeply([ sort keys %relations ],
	[ rows(q{SELECT relname FROM pg_class WHERE relnamespace = 'shortener'::regnamespace AND relkind IN ('r', 'p', 'v')
		AND NOT relispartition ORDER BY relname COLLATE "C"}) ],
	'... every table and view');
my @without_example = grep { $public !~ /^#### `\Q$_\E`\n(?:(?!^####).)*?^```sql\n/ms } sort keys %documented;
is_deeply(\@without_example, [], '... and an example of every function');

$subscriber->stop if $subscriber;
$node->stop;
done_testing();
