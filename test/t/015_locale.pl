# Links do not depend on the locale and the encoding of the database.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('locale');
$node->init(extra => [ '--locale=C', '--encoding=UTF8' ]);
$node->start;

sub make_database
{
	my ($database, $options) = @_;
	$node->safe_psql('postgres', "CREATE DATABASE $database TEMPLATE template0 $options");
	$node->safe_psql($database, 'CREATE EXTENSION shortener CASCADE; CALL shortener.install()');
	return;
}

# In Turkish the lower case of I is not i. Generated codes step aside for reserved words all the same.
make_database('turkish', "ENCODING 'UTF8' LOCALE_PROVIDER icu ICU_LOCALE 'tr-TR'");
is($node->safe_psql('turkish', q{
	SELECT lower('API') <> 'api';
	SELECT shortener.create_workspace('counted', code_style => 'sequential');
	DO $$ BEGIN PERFORM setval('shortener.link_id_seq', shortener.base62_decode('ApI') - 1); END $$;
	SELECT shortener.shorten('https://example.com/1', 'counted');
	DO $$ BEGIN PERFORM setval('shortener.link_id_seq', shortener.base62_decode('API') - 1); END $$;
	SELECT short_code FROM shortener.shorten_many('{https://example.com/2}', 'counted')}), "t\n2\nApJ\nAPJ", 'Turkish');
my (undef, undef, $error) = $node->psql('turkish', q{SELECT shortener.create_link('https://example.com/', alias => 'LOGIN')});
like($error, qr/short code "LOGIN" is reserved/, 'nor is one an alias');

# What we say is ASCII: other bytes would be wrong, or an error, in another encoding.
for my $encoding (qw(latin1 euc_jp))
{
	make_database($encoding, "ENCODING '$encoding' LOCALE 'C'");
	(undef, undef, $error) = $node->psql($encoding, q{SET client_encoding = utf8; SELECT shortener.shorten('https://example.com/', 'nobody')});
	like($error, qr/workspace "nobody" does not exist\s+HINT:  [ -~]+$/m, "$encoding: an error with its hint");
}

$node->stop;
done_testing();
