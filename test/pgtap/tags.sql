BEGIN;
CREATE EXTENSION shortener CASCADE;
CALL shortener.install();
SET LOCAL search_path = shortener, public;
SELECT plan(19);

SELECT shorten('https://example.com/1') AS one, shorten('https://example.com/2') AS two \gset
SELECT is(tag_link(:'one', 'spring'), true, 'a tag');
SELECT is(tag_link(:'one', 'spring'), false, 'once');
SELECT is(tag_link(:'one', 'Spring'), true, 'case counts');
SELECT is(tag_link('nothing', 'spring'), false, 'no link');
SELECT throws_ok(format('SELECT tag_link(%L, %s)', :'one', tag), '22023', NULL, 'no tag') FROM (VALUES ('NULL'), (''''''), ('repeat(''x'', 51)'), ('E''a\nb'''), ('repeat(''x'', 300000000)')) t (tag);
SELECT is(link_tags(:'one'), '{Spring,spring}', 'the tags of a link');
SELECT is(link_tags(:'two'), '{}', 'none');
SELECT results_eq($$ SELECT short_code FROM list_links(tag => 'spring') $$, ARRAY[:'one'], 'the links of a tag');
SELECT is((SELECT count(*) FROM list_links()), 2::bigint, 'all links');
SELECT is(untag_link(:'one', 'Spring'), true, 'taken away');
SELECT is(untag_link(:'one', 'Spring'), false, 'once');
SELECT throws_ok($$ SELECT tag_link('x', 'y', 'nobody') $$, '42704', NULL, 'an unknown workspace');
SELECT is(remove_unused_tags(), 0::bigint, 'tags of links stay');
SELECT delete_link(:'one');
SELECT is(link_tags(:'one'), '{}', 'a deleted link shows none');
DELETE FROM link WHERE short_code = :'one';
SELECT is(remove_unused_tags(), 1::bigint, 'the others are removed');

SELECT * FROM finish();
ROLLBACK;
