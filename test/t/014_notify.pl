# What a cache hears on channel `shortener`: every change of an answer it may hold, and nothing else.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('notify');
$node->init;
$node->append_conf('postgresql.conf', 'fsync = off');
$node->start;
$node->safe_psql('postgres', q{
	CREATE EXTENSION shortener CASCADE;
	CALL shortener.install();
	SELECT shortener.create_workspace('other')});

sub value { return $node->safe_psql('postgres', $_[0]); }

my $listener = $node->background_psql('postgres');
$listener->query_safe('LISTEN shortener');

# Payloads of what the statements, run in one session, sent. A sender is done only after it has signalled the
# listener, which gets everything before the answer to its next query.
sub sent_by
{
	my ($sql) = @_;
	value($sql);
	return [ $listener->query_safe('SELECT 1') =~ /^Asynchronous notification "shortener" with payload "(.*)" received/mg ];
}

sub rotate { my ($word, $bits) = @_; return ($word << $bits) | ($word >> (64 - $bits)); }
sub add { use integer; my $sum = $_[0] + $_[1]; no integer; return $sum & ~0; }

sub sip_round
{
	my ($v) = @_;
	$v->[0] = add($v->[0], $v->[1]); $v->[1] = rotate($v->[1], 13) ^ $v->[0]; $v->[0] = rotate($v->[0], 32);
	$v->[2] = add($v->[2], $v->[3]); $v->[3] = rotate($v->[3], 16) ^ $v->[2];
	$v->[0] = add($v->[0], $v->[3]); $v->[3] = rotate($v->[3], 21) ^ $v->[0];
	$v->[2] = add($v->[2], $v->[1]); $v->[1] = rotate($v->[1], 17) ^ $v->[2]; $v->[2] = rotate($v->[2], 32);
	return;
}

# SipHash-2-4 (https://www.aumasson.jp/siphash/siphash.pdf), once more and apart from the one under test.
sub siphash
{
	my ($key, $message) = @_;
	my @key = unpack 'Q<2', $key;
	my @v = unpack 'Q>4', 'somepseudorandomlygeneratedbytes';
	$v[$_] ^= $key[ $_ % 2 ] for 0 .. 3;
	my $length = length $message;
	for my $word (unpack 'Q<*', $message . "\0" x (7 - $length % 8) . chr($length % 256))
	{
		$v[3] ^= $word;
		sip_round(\@v) for 1 .. 2;
		$v[0] ^= $word;
	}
	$v[2] ^= 0xff;
	sip_round(\@v) for 1 .. 4;
	return $v[0] ^ $v[1] ^ $v[2] ^ $v[3];
}
is(sprintf('%016x', siphash(pack('C*', 0 .. 15), pack('C*', 0 .. 14))), 'a129ca6149be45e5', 'the vector of the paper');

my $notification_key = pack 'H*', value(q{SELECT encode(shortener.notification_key(), 'hex')});
sub tag { my ($workspace_id, $code) = @_; return sprintf '%016x', siphash($notification_key, pack('q<', $workspace_id) . $code); }

# Creation.
is_deeply(sent_by(q{SELECT shortener.shorten('https://a.example/')}), [], 'a new link: nothing');
is_deeply(sent_by(q{SELECT shortener.shorten('https://a.example/')}), [], 'a known link: nothing');
is_deeply(sent_by(q{SELECT shortener.create_link('https://b.example/')}), [], 'create_link without alias: nothing');
is_deeply(sent_by(q{SELECT * FROM shortener.shorten_many((SELECT array_agg('https://many.example/' || i) FROM generate_series(1, 300) i))}),
	[], 'three hundred at once: nothing');
my $first = tag(1, 'first');
is_deeply(sent_by(q{SELECT shortener.create_link('https://c.example/', alias => 'first')}), [$first], 'an alias: its tag');
is_deeply(sent_by(q{SELECT shortener.create_link('https://c.example/', alias => 'second')}), [ tag(1, 'second') ], 'another alias: its own tag');
my $other_id = value(q{SELECT shortener.workspace_id('other')});
is_deeply(sent_by(q{SELECT shortener.create_link('https://c.example/', alias => 'first', workspace => 'other')}),
	[ tag($other_id, 'first') ], 'the same alias in another workspace: the tag of that one');
is(scalar(keys %{ { map { $_ => 1 } $first, tag(1, 'second'), tag($other_id, 'first') } }), 3, 'three tags');

# Changes.
is_deeply(sent_by(q{SELECT shortener.update_link('first', url => 'https://d.example/')}), [$first], 'a new URL: the tag');
is_deeply(sent_by(q{SELECT shortener.update_link('first', redirect_status => 301)}), [$first], 'a new status: the tag');
is_deeply(sent_by(q{SELECT shortener.update_link('first', expires_at => now() + '1 day')}), [$first], 'a new expiry: the tag');
is_deeply(sent_by(q{SELECT shortener.update_link('first', title => 'what no visitor sees')}), [], 'a new title: nothing');
is_deeply(sent_by(q{SELECT shortener.disable_link('first')}), [$first], 'disable_link: the tag');
is_deeply(sent_by(q{SELECT shortener.disable_link('first')}), [], 'disable_link of a disabled link: nothing');
is_deeply(sent_by(q{SELECT shortener.enable_link('first')}), [$first], 'enable_link: the tag');
is_deeply(sent_by(q{SELECT shortener.delete_link('first')}), [$first], 'delete_link: the tag');
is_deeply(sent_by(q{SELECT shortener.delete_link('first')}), [], 'delete_link of a deleted link: nothing');
is_deeply(sent_by(q{SELECT shortener.disable_link('nobody')}), [], 'an unknown code: nothing');

my $revived = value(q{SELECT shortener.shorten('https://a.example/')});
is_deeply(sent_by(qq{UPDATE shortener.link SET expires_at = now() - interval '1 day' WHERE short_code = '$revived'}),
	[ tag(1, $revived) ], 'an expiry in the past: the tag');
is_deeply(sent_by(q{SELECT shortener.shorten('https://a.example/')}), [ tag(1, $revived) ], 'a revival: the tag');
is_deeply(sent_by(qq{DELETE FROM shortener.link WHERE short_code = '$revived'}), [ tag(1, $revived) ], 'removal of an active link: the tag');

# Transactions.
my $second = tag(1, 'second');
is_deeply(sent_by(q{BEGIN; SELECT shortener.disable_link('second'), shortener.enable_link('second'); COMMIT}),
	[$second], 'two changes of a link in one transaction: the tag once');
is_deeply(sent_by(q{BEGIN; SELECT shortener.disable_link('second'); ROLLBACK}), [], 'a change rolled back: nothing');
is_deeply(sent_by(q{BEGIN; SAVEPOINT s; SELECT shortener.disable_link('second'); ROLLBACK TO s; COMMIT}), [],
	'a change rolled back to a savepoint: nothing');

# Many links at once.
sub toggle
{
	my ($count) = @_;
	return sent_by(qq{UPDATE shortener.link SET is_active = NOT is_active WHERE short_code IN (
		SELECT short_code FROM shortener.link WHERE original_url LIKE 'https://many.example/%' ORDER BY id LIMIT $count)});
}
my @codes = split /\n/, value(q{SELECT short_code FROM shortener.link WHERE original_url LIKE 'https://many.example/%' ORDER BY id LIMIT 256});
my $payloads = toggle(256);
is(scalar(@$payloads), 1, '256 links in one statement: one payload');
like($payloads->[0], qr/^[0-9a-f]{16}( [0-9a-f]{16})*$/, '... of tags');
is_deeply([ sort split / /, $payloads->[0] ], [ sort map { tag(1, $_) } @codes ], '... one for each link');
is_deeply(toggle(257), ['flush'], '257 links: one flush');
is_deeply(toggle(300), ['flush'], '300 links: one flush');

value(q{UPDATE shortener.link SET expires_at = now() - interval '1 day' WHERE original_url LIKE 'https://many.example/%'});
$listener->query_safe('SELECT 1');
is_deeply(sent_by(q{DELETE FROM shortener.link WHERE expires_at < now()}), [], 'removal of expired links: nothing');
my $list = join ',', @codes;
is(value("SELECT count(*) FROM shortener.resolve_many('{$list}') WHERE http_status = 410"), 256, '... though they are gone');

# What no tag can name.
is_deeply(sent_by(q{SELECT shortener.add_domain('go.example')}), ['flush'], 'add_domain: flush');
is_deeply(sent_by(q{DELETE FROM shortener.domain}), ['flush'], 'removal of a domain: flush');
is_deeply(sent_by(q{SELECT shortener.set_page_texts('none', 'gone')}), ['flush'], 'set_page_texts: flush');
is_deeply(sent_by(q{TRUNCATE shortener.link CASCADE}), ['flush'], 'TRUNCATE of the links: flush');

# Who may change links need not read the key that makes the tags.
value(q{CREATE ROLE editor; GRANT USAGE ON SCHEMA shortener TO editor; GRANT SELECT, INSERT, UPDATE ON shortener.link TO editor;
	SELECT shortener.create_link('https://e.example/', alias => 'edited')});
$listener->query_safe('SELECT 1');
is_deeply(sent_by(q{SET ROLE editor; UPDATE shortener.link SET is_active = false WHERE short_code = 'edited'}), [ tag(1, 'edited') ],
	'a role that cannot read the key: the tag all the same');

$listener->quit;
$node->stop;
done_testing();
