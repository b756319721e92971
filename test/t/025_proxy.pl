# Behind nginx and Caddy, with the files of docs/proxy: only ports, certificate and directories are filled in.
use strict;
use warnings;

use Cwd qw(getcwd);
use Frontend;
use IO::Socket::INET;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $dir = PostgreSQL::Test::Utils::tempdir();
my $peers = getcwd() . '/.build/peers/bin';
my $node = database('proxy');
sub value { return $node->safe_psql('postgres', $_[0]); }
value(q{
	SELECT shortener.create_workspace('tenant');
	SELECT shortener.add_domain('links.example', workspace => 'tenant');
	SELECT shortener.create_link('https://to.example/mine', alias => 'same');
	SELECT shortener.create_link('https://to.example/theirs', alias => 'same', workspace => 'tenant');
	SELECT shortener.create_link('https://to.example/keep', alias => 'keep', redirect_status => 307)});
my $id = value(q{SELECT link_id FROM shortener.resolve('same')});
my $frontend = Frontend->start(database => $node->connstr('postgres'), flags => [ '--log-level', 'debug', '--trusted-proxy', '127.0.0.1' ]);

# Signed by itself, so that curl can be told to believe it.
run_log([ 'openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', 2, '-subj', '/CN=go.example',
		'-addext', 'subjectAltName=DNS:go.example,DNS:links.example', '-keyout', "$dir/key.pem", '-out', "$dir/certificate.pem" ])
  or BAIL_OUT('openssl made no certificate');

# A file of docs/proxy with every given text replaced by another; each must be there.
sub filled_in
{
	my ($file, %replace) = @_;
	my $text = slurp_file("docs/proxy/$file");
	for my $old (sort keys %replace)
	{
		my $count = $text =~ s/\Q$old\E/$replace{$old}/g;
		BAIL_OUT("docs/proxy/$file: no $old") unless $count;
	}
	append_to_file("$dir/$file", $text);
	return "$dir/$file";
}
my @certificate = ('/etc/ssl/go.example/fullchain.pem' => "$dir/certificate.pem", '/etc/ssl/go.example/privkey.pem' => "$dir/key.pem");

my %running;
END { my $status = $?; kill 'KILL', $_ for values %running; waitpid $_, 0 for values %running; $? = $status; }

# Starts a proxy; returns when it takes connections.
sub start
{
	my ($name, $port, @command) = @_;
	my $pid = fork // die "fork: $!";
	if (!$pid)
	{
		$ENV{$_} = $dir for qw(HOME XDG_DATA_HOME XDG_CONFIG_HOME);
		open STDERR, '>', "$dir/$name.log" or die "$dir/$name.log: $!";
		open STDOUT, '>&', \*STDERR or die $!;
		exec @command or die "$command[0]: $!";
	}
	$running{$name} = $pid;
	return if eventually { IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port) };
	BAIL_OUT("$name did not start:\n" . slurp_file("$dir/$name.log"));
}

sub stop
{
	my ($name) = @_;
	kill 'TERM', $running{$name};
	waitpid delete $running{$name}, 0;
	return;
}

sub start_nginx
{
	my ($http, $https) = @_;
	# One family of addresses is enough here, and a machine may have no other.
	my $site = filled_in('nginx.conf', @certificate, 'server 127.0.0.1:8080;' => "server 127.0.0.1:$frontend->{port};",
		'listen 80;' => "listen 127.0.0.1:$http;", 'listen 443 ssl' => "listen 127.0.0.1:$https ssl",
		'listen [::]:80;' => '', 'listen [::]:443 ssl http2;' => '');
	append_to_file("$dir/main.conf", join "\n", "daemon off; pid $dir/nginx.pid; error_log stderr; worker_processes 1; events {}",
		'http {', 'access_log off;', (map { "${_}_temp_path $dir/$_;" } qw(client_body proxy fastcgi uwsgi scgi)), "include $site;", '}', '');
	start('nginx', $https, "$peers/nginx", '-p', $dir, '-c', "$dir/main.conf", '-e', 'stderr');
	return;
}

sub start_caddy
{
	my ($http, $https) = @_;
	my $file = filled_in('Caddyfile', @certificate, 'reverse_proxy 127.0.0.1:8080' => "reverse_proxy 127.0.0.1:$frontend->{port}",
		"\n{\n\tservers" => "\n{\n\thttp_port $http\n\thttps_port $https\n\tdefault_bind 127.0.0.1\n\tadmin off\n\tservers");
	start('caddy', $https, "$peers/caddy", 'run', '--adapter', 'caddyfile', '--config', $file);
	return;
}

# The visitor has another address than the proxy, which is 127.0.0.1.
my $visitor = '127.0.0.2';
my %port;

# Asks for a URL of go.example or links.example as a visitor; gives status, head and body.
sub visit
{
	my ($url, @options) = @_;
	my ($scheme, $host) = $url =~ m{^(https?)://([a-z.]+)/};
	$url =~ s{^(https?://[a-z.]+)}{$1:$port{$scheme}};
	my ($out, $err) = ('', '');
	IPC::Run::run([ 'curl', '-sSi', '--max-time', 30, '--noproxy', '*', '--interface', $visitor, '--cacert', "$dir/certificate.pem",
			'--resolve', "$host:$port{$scheme}:127.0.0.1", @options, $url ], '<', '/dev/null', '>', \$out, '2>', \$err);
	my ($head, $body) = split /\r\n\r\n/, $out, 2;
	my ($status) = ($head // '') =~ m{^HTTP/[\d.]+ (\d{3})};
	my ($location) = ($head // '') =~ /^location: (.*?)\r?$/mi;
	diag("curl: $err") unless $status;
	return { status => $status, location => $location, head => $head, body => $body };
}

# The addresses that were logged for redirects while the code ran.
sub clients
{
	my ($code) = @_;
	my $logged = length $frontend->log;
	$code->();
	return substr($frontend->log, $logged) =~ /redirect link=$id client=(\S+)$/mg;
}

for my $proxy ([ 'nginx', \&start_nginx ], [ 'caddy', \&start_caddy ])
{
	my ($name, $start) = @$proxy;
	%port = map { $_ => PostgreSQL::Test::Cluster::get_free_port() } qw(http https);
	$start->(@port{qw(http https)});
	note($name);

	my $plain = visit('http://go.example/same?x=1');
	is($plain->{status}, 308, "$name: http is redirected");
	like($plain->{location}, qr{^https://go\.example(:$port{https})?/same\?x=1$}, '... to the same place with https');

	for my $version ('--http1.1', '--http2')
	{
		my $answer = visit('https://go.example/same', $version);
		is($answer->{status}, 302, "$name, $version: a link redirects");
		is($answer->{location}, 'https://to.example/mine', '... where it leads to');
		like($answer->{head}, qr/^cache-control: private, no-store\r?$/mi, '... with the headers of shortenerd');
	}
	is(visit('https://links.example/same')->{location}, 'https://to.example/theirs', "$name: the host chooses the workspace");
	is(visit('https://go.example/same', '--head')->{status}, 302, "$name: HEAD");

	my $page = visit('https://go.example/nosuch');
	is($page->{status}, 404, "$name: an unknown code");
	like($page->{head}, qr/^content-security-policy: default-src 'none'; style-src 'sha256-/mi, '... with the policy of its page');
	like($page->{body}, qr/This link does not exist/, '... and the page itself');

	my $posted = visit('https://go.example/keep', '--data', 'a=b');
	is($posted->{status}, 307, "$name: POST on a 307 link is forwarded");
	is($posted->{location}, 'https://to.example/keep', '... to its URL');
	is(visit('https://go.example/same', '--data', 'a=b')->{status}, 405, '... and refused on a 302 link');
	is(visit('https://go.example/keep', '--data', 'x' x 70_000)->{status}, 413, "$name: a body that nobody needs is refused")
	  unless crow() && $name eq 'caddy'; # where shortenerd refuses it

	for my $path (qw(metrics healthz readyz))
	{
		my $answer = visit("https://go.example/$path");
		is($answer->{status}, 404, "$name: /$path is not for the public");
		unlike($answer->{body}, qr/shortenerd_|^ok$|^ready$/m, '... nor what it says');
	}

	is_deeply([ clients(sub { visit('https://go.example/same') }) ], [$visitor], "$name: the address of the visitor is known");
	is_deeply([ clients(sub { visit('https://go.example/same', '-H', 'X-Forwarded-For: 192.0.2.66') }) ],
		[$visitor], '... and cannot be forged');
	is_deeply([ clients(sub { visit('https://go.example/same', '-H', 'X-Forwarded-For: 192.0.2.66, 127.0.0.1', '-H', 'Forwarded: for=192.0.2.66', '-H', 'X-Real-IP: 192.0.2.66') }) ],
		[$visitor], '... in no way');

	my $growth = $frontend->growth(sub { visit('https://go.example/same') for 1 .. 20 });
	is($growth->{'requests_total{status="302"}'}, 20, "$name: twenty visits");
	cmp_ok($growth->{connections_total} // 0, '<=', 2, '... over connections that were kept');
	stop($name);
}

# Past the proxy: who is not trusted is not believed.
is_deeply([ clients(sub { $port{http} = $frontend->{port}; visit('http://go.example/same', '-H', 'X-Forwarded-For: 192.0.2.66') }) ],
	[$visitor], 'a stranger who speaks to shortenerd itself cannot forge an address');

$frontend->stop;
$node->stop;
done_testing();
