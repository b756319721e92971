BEGIN;
CREATE EXTENSION shortener CASCADE;
SET LOCAL search_path = shortener, public;
SELECT plan(112);

-- What a browser makes of what people paste
CREATE TEMPORARY TABLE canonical (given text, expected text);
INSERT INTO canonical VALUES
    ('https://example.com', 'https://example.com/'),
    (E'  \n HTTPS://EXAMPLE.com:443/Path?Query#Fragment \t', 'https://example.com/Path?Query#Fragment'),
    (E'ht\ttp://exam\r\nple.com/a\nb', 'http://example.com/ab'),
    (E'\u0001http://h/\u001f', 'http://h/'),
    ('http:/\evil', 'http://evil/'),
    ('http:evil', 'http://evil/'),
    ('https://///evil', 'https://evil/'),
    ('http://evil\@good', 'http://evil/@good'),
    ('https://good@evil', 'https://good@evil/'),
    ('http://u:p@h:8080', 'http://u:p@h:8080/'),
    ('http://@h:80', 'http://h/'),
    ('http://h/a/../b/./c/%2E%2e/d', 'http://h/b/d'),
    ('http://h/a b"<>`{}é%zz%0d%0a%00', 'http://h/a%20b%22%3C%3E%60%7B%7D%C3%A9%zz%0d%0a%00'),
    ('http://h?', 'http://h/?'),
    ('http://h#', 'http://h/#'),
    ('http://h?a''b c', 'http://h/?a%27b%20c'),
    ('http://0x7f.1', 'http://127.0.0.1/'),
    ('http://2130706433', 'http://127.0.0.1/'),
    ('http://0177.0.0.1', 'http://127.0.0.1/'),
    ('http://127.1', 'http://127.0.0.1/'),
    ('http://[::ffff:7f00:1]', 'http://[::ffff:7f00:1]/'),
    ('http://[0:0:0:0:0:0:0:1]', 'http://[::1]/'),
    ('http://аpple.com', 'http://xn--pple-43d.com/'),
    ('http://ｅxample．com', 'http://example.com/'),
    ('http://MÜNCHEN.de', 'http://xn--mnchen-3ya.de/'),
    ('http://faß.de', 'http://xn--fa-hia.de/'),
    ('HTTPS://EXAMPLE.COM.:443', 'https://example.com./');
SELECT is(canonical_url(given), expected, 'canonical_url ' || to_json(given)) FROM canonical;
SELECT is_empty('SELECT given FROM canonical WHERE canonical_url(expected) <> expected', 'canonical_url is idempotent');
SELECT is_empty('SELECT given FROM canonical WHERE NOT is_url(given)', 'is_url knows them all');

-- Every reason for refusal, with its SQLSTATE and message
CREATE TEMPORARY TABLE refused (given text, sqlstate text, message text);
INSERT INTO refused VALUES
    ('', '22P02', 'URL is empty'),
    (E' \n ', '22P02', 'URL is empty'),
    ('example.com', '22P02', 'URL "example.com" has no scheme'),
    ('//evil', '22P02', 'URL "//evil" has no scheme'),
    ('javascript:alert(1)', '22P02', 'URL "javascript:alert(1)" has a scheme other than http and https'),
    (E'JaVa\tScript:alert(1)', '22P02', E'URL "JaVa\tScript:alert(1)" has a scheme other than http and https'),
    ('data:text/html,x', '22P02', 'URL "data:text/html,x" has a scheme other than http and https'),
    ('file:///etc/passwd', '22P02', 'URL "file:///etc/passwd" has a scheme other than http and https'),
    ('http://', '22P02', 'URL "http://" has no host'),
    ('http://user@/', '22P02', 'URL "http://user@/" has no host'),
    ('http://a b/', '22P02', 'URL "http://a b/" has a forbidden character in its host'),
    ('http://a%00b/', '22P02', 'URL "http://a%00b/" has a forbidden character in its host'),
    ('http://a%0d%0ab/', '22P02', 'URL "http://a%0d%0ab/" has a forbidden character in its host'),
    ('http://%ff/', '22P02', 'URL "http://%ff/" has percent-encoded bytes in its host that are not UTF-8'),
    ('http://xn--/', '22P02', 'URL "http://xn--/" has a host that is not a valid international domain name'),
    ('http://h' || repeat('é', 600), '54000',
        'URL "http://h' || repeat('é', 28) || '..." has an international host that is too long'),
    ('http://1.2.3.256/', '22P02', 'URL "http://1.2.3.256/" has an invalid IPv4 address as its host'),
    ('http://[fe80::1%25eth0]/', '22P02', 'URL "http://[fe80::1%25eth0]/" has an invalid IPv6 address as its host'),
    ('http://h:x/', '22P02', 'URL "http://h:x/" has a port that is not a number'),
    ('http://h:65536/', '22P02', 'URL "http://h:65536/" has a port beyond 65535'),
    ('http://h/' || repeat('x', 65536 - 8), '54000', 'URL "http://h/' || repeat('x', 64 - 9) || '..." is too long'),
    ('http://h/' || repeat('x', 1000000), '54000', 'URL "http://h/' || repeat('x', 64 - 9) || '..." is too long');
SELECT throws_ok(format('SELECT canonical_url(%L)', given), sqlstate, message, to_json(message)::text) FROM refused;
SELECT throws_ok(format('SELECT normalize_url(%L)', given), sqlstate, message, 'normalize_url: ' || to_json(message)) FROM refused;
SELECT is_empty('SELECT given FROM refused WHERE is_url(given)', 'is_url refuses them without an error');

SELECT is(length(canonical_url('http://h/' || repeat('x', 65536 - 9))), 65536, 'the longest URL there is');
SELECT throws_ok($$ SELECT canonical_url('http://h/' || repeat('"', 30000)) $$, '54000', NULL, 'a result that could not be read again');

-- The rules
CREATE TEMPORARY TABLE normalized (rules text[], given text, expected text);
INSERT INTO normalized VALUES
    ('{}', 'HTTP://h:80/a/?b&a&&utm_source', 'http://h/a/?b&a&&utm_source'),
    ('{sort_query}', 'http://h/?b=2&a=1&b=1', 'http://h/?a=1&b=2&b=1'),
    ('{sort_query}', 'http://h/?b&%61=2&a=1', 'http://h/?%61=2&a=1&b'),
    ('{sort_query}', 'http://h/?b&&a&', 'http://h/?a&b'),
    ('{sort_query}', 'http://h/?#f', 'http://h/#f'),
    ('{strip_tracking}', 'http://h/?b=1&utm_source=x&a=2', 'http://h/?b=1&a=2'),
    ('{strip_tracking}', 'http://h/?UTM_Source=x&%66bclid=y#f', 'http://h/#f'),
    ('{strip_tracking}', 'http://h/?utm=1&gclid2&a=fbclid', 'http://h/?utm=1&gclid2&a=fbclid'),
    ('{strip_trailing_slash}', 'http://h/a/?q/', 'http://h/a?q/'),
    ('{strip_trailing_slash}', 'http://h/a//', 'http://h/a'),
    ('{strip_trailing_slash}', 'http://h', 'http://h/'),
    ('{unify_scheme}', 'http://h/', 'https://h/'),
    ('{unify_scheme}', 'http://h:8080/', 'https://h:8080/'),
    ('{unify_scheme}', 'http://h:443/', 'http://h:443/'),
    ('{unify_scheme}', 'https://h:80/', 'https://h:80/'),
    ('{unify_scheme,unify_scheme}', 'http://h/', 'https://h/'),
    ('{{sort_query,unify_scheme},{strip_tracking,strip_trailing_slash}}', 'http://h/a/?b&a&gclid=1', 'https://h/a?a&b');
SELECT is(normalize_url(given, rules), expected, format('%s %L', rules, given)) FROM normalized;
SELECT is_empty('SELECT given FROM normalized WHERE normalize_url(expected, rules) <> expected', 'normalize_url is idempotent');
SELECT is(normalize_url('HTTP://EXAMPLE.com:80/A/b/?utm_source=x&b=2&a=1#top'), 'https://example.com/A/b?a=1&b=2#top',
    'all four rules are the default; the path keeps its case');
SELECT is_empty($$
    SELECT name FROM unnest('{utm_source,utm_anything,fbclid,gclid,gclsrc,dclid,gbraid,wbraid,msclkid,mc_cid,mc_eid,igshid,
        twclid,ttclid,li_fat_id,yclid,_hsenc,_hsmi,mkt_tok,vero_id,oly_anon_id,oly_enc_id,s_cid,srsltid,ref_src}'::text[]) name
    WHERE normalize_url('http://h/?a=1&' || upper(name) || '=x&b=2', '{strip_tracking}') <> 'http://h/?a=1&b=2' $$,
    'every tracking parameter goes');

SELECT throws_ok($$ SELECT normalize_url('http://h', '{sort_query,sort}') $$, '22023', 'unknown URL rule "sort"', 'an unknown rule');
SELECT throws_ok($$ SELECT normalize_url('http://h', '{SORT_QUERY}') $$, '22023', 'unknown URL rule "SORT_QUERY"', 'names have a case');
SELECT throws_ok($$ SELECT normalize_url('http://h', '{NULL}') $$, '22023', 'unknown URL rule "NULL"', 'NULL is no rule');

SELECT is(canonical_url(NULL), NULL, 'canonical_url is strict');
SELECT is(is_url(NULL), NULL, 'is_url is strict');
SELECT is(normalize_url(NULL), NULL, 'normalize_url is strict');
SELECT is(normalize_url('http://h', NULL), NULL, 'in both arguments');

-- An index on the key works, which takes an IMMUTABLE function.
CREATE TEMPORARY TABLE page (url text);
CREATE UNIQUE INDEX ON page (md5(normalize_url(url)));
INSERT INTO page VALUES ('http://h/?b&a');
SELECT throws_ok($$ INSERT INTO page VALUES ('https://h/?a&utm_source=x&b') $$, '23505', NULL, 'a unique index on the key');

SELECT is((SELECT string_agg(concat_ws(' ', proname, provolatile, proisstrict, proparallel), ', ' ORDER BY proname COLLATE "C")
    FROM pg_proc WHERE pronamespace = 'shortener'::regnamespace AND proname IN ('canonical_url', 'is_url', 'normalize_url')),
    'canonical_url i t s, is_url i t s, normalize_url i t s', 'volatility, strictness and parallel safety');

-- url_parameter
SELECT is(shortener.url_parameter('https://e/?a=1&ab=2&a=3#?b=4', 'a'), '1', 'the first value');
SELECT is(shortener.url_parameter('https://e/?a=1&ab=2#?b=4', 'ab'), '2', 'of the whole name');
SELECT is(shortener.url_parameter('https://e/?a=1#?b=4', 'b'), NULL, 'not from the fragment');
SELECT is(shortener.url_parameter('https://e/?a=&b', 'a'), NULL, 'an empty value is none');
SELECT is(shortener.url_parameter('https://e/?a=%C3%A9%2B+%zz%', 'a'), 'é+ %zz%', 'decoded');
SELECT is(shortener.url_parameter('https://e/?a=%ff%00x', 'a'), '??x', 'what is no text is question marks');
SELECT is(length(shortener.url_parameter('https://e/?a=' || repeat('x', 2000), 'a')), 100, 'cut');

SELECT * FROM finish();
ROLLBACK;
