# Whatever runs with the rights of the tables' owner, or on a table of anybody's, has a decision in SECURITY.md.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('decisions');
$node->init;
$node->append_conf('postgresql.conf', 'fsync = off');
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION shortener CASCADE; CALL shortener.install()');
sub rows { return split /\n/, $node->safe_psql('postgres', $_[0]); }

my $document = slurp_file('SECURITY.md');
my ($sections) = $document =~ /^## What runs with the rights of the tables' owner\n(.*?)^## /ms or die 'no list of sections';
my ($triggers) = $document =~ /^## Triggers\n(.*?)^## /ms or die 'no list of triggers';

# Tables in sections.
my %decided;    # table => access
while ($sections =~ /^\| (`[^|]*`) \| ([a-z, ]+) \|/mg)
{
	my $access = $2;
	for my $table ($1 =~ /`(\w+)`/g)
	{
		ok(!$decided{$table}, "table $table is listed once");
		$decided{$table} = $access;
	}
}
my $uses = 0;
for my $file (glob 'extension/pg/*.cpp')
{
	my $source = slurp_file($file);
	my $calls = () = $source =~ /OwnerSection\s*::\s*to_|(?<!class )OwnerSection\s*\(/g;
	my $listed = 0;
	while ($source =~ /OwnerSection::to_(read|write)\(\s*\{([^}]*)\}(?:,\s*\{([^}]*)\})?\)/g)
	{
		my ($kind, $first, $second) = ($1, $2, $3 // '');
		$listed++;
		for ([ $kind, $first ], [ 'read', $second ])
		{
			my ($access, $names) = @$_;
			like($decided{$_} // '', qr/\b$access\b/, "$file: to $access $_ is decided") for $names =~ /"(\w+)"/g;
		}
	}
	next if $file =~ /owner_section\.cpp$/;
	is($listed, $calls, "$file: every section names its tables in place") if $calls;
	unlike($source, qr/SetUserIdAndSecContext/, "$file: changes the user by itself");
	$uses += $listed;
}
cmp_ok($uses, '>', 3, "$uses sections");

# Functions.
is_deeply([ rows(q{SELECT p.oid::regprocedure FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE p.prosecdef AND n.nspname = 'shortener'}) ], [],
	'no function is SECURITY DEFINER');
my %named;
$named{$_}++ for $triggers =~ /^\| `(\w+)`/mg;
is_deeply([ grep { $named{$_} > 1 } sort keys %named ], [], 'no trigger function is listed twice');
ok($named{$_}, "trigger function $_ is decided")
  for rows(q{SELECT proname FROM pg_proc WHERE pronamespace = 'shortener'::regnamespace AND prorettype = 'trigger'::regtype});
is_deeply([ rows(q{SELECT DISTINCT c.oid::regclass FROM pg_class c WHERE c.relnamespace = 'shortener'::regnamespace AND c.relkind = 'v'
	AND coalesce(c.reloptions::text, '') !~ 'security_invoker=true' AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = c.oid AND d.deptype = 'e')}) ], [],
	'views read with the rights of who asks');

$node->stop;
done_testing();
