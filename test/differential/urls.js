// Compares canonical_url with the URL class of Node.js on URLs mutated from the corpus below: equal hrefs, or both
// refuse. Disagreements on the lists of excuses are counted; any other is printed and fails the run.
// Usage: node urls.js DRIVER CASES [SEED]
'use strict';
const { spawn } = require('child_process');
const { domainToUnicode } = require('url');

const [driver, cases, seed] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4] ?? 1)];
const batch = 50000;

// The numbers of UrlError that the excuses speak of.
const refusal = { missing_scheme: 4, unsupported_scheme: 5, invalid_idna: 9, idna_too_long: 10 };

const corpus = [
    'https://example.com', 'http://www.example.com/', 'https://en.wikipedia.org/wiki/Uniform_Resource_Locator#Syntax',
    'https://www.youtube.com/watch?v=dQw4w9WgXcQ&t=42s', 'https://shop.example/a/b?utm_source=news&id=7&id=8#top',
    'https://user:pass@example.com:8443/path;p=1/x?y=z#frag', 'http://localhost:3000/api/v1/items?filter[a]=b|c',
    'https://maps.example/@52.5,13.4,12z/data=!3m1!4b1', 'https://example.com/a%20b/%C3%A9?q=%E2%82%AC+x',
    'https://example.com/путь/文件?ключ=値#片段', 'https://münchen.de/straße', 'https://xn--mnchen-3ya.de/',
    'https://例え.テスト/', 'https://faß.de/', 'https://www.ελλάδα.gr/', 'https://مثال.إختبار/', 'https://אבג.example/',
    'https://भारत.भारत/', 'https://한국.kr/', 'https://🦊.example/', 'https://аpple.com/', 'https://ｅxample．com/',
    'http://1.2.3.4/', 'http://127.1', 'http://0x7f.1', 'http://2130706433', 'http://0177.0.0.1/', 'http://0x/', 'http://1.2.3/',
    'http://256.1.1.1', 'http://4294967296/', 'http://1.2.3.4.', 'http://foo.09', 'http://0xffffffff', 'http://%31.0x2.03.4',
    'http://[::1]:8080/', 'http://[2001:db8:0:0:1:0:0:1]/x', 'http://[::ffff:1.2.3.4]', 'http://[fe80::1%25eth0]/', 'http://[1:2:3:4:5:6:7::]',
    'http://[1:2:3:4:5:6:1.2.3.4]/', 'http://[::]', 'http:/\\evil', 'http:evil', 'https:////evil//x', 'http://evil\\@good', 'https://good@evil',
    'http://a:b@c:d@e:80/', 'http://:@h/', 'http://@/', 'http://h:/', 'http://h:65536/', 'http://h:00443/', 'https://h:443',
    'http://h/a/../../b/./c/%2e%2E/d/.', 'http://h/..', 'http://h/a//b/..//', 'http://h?', 'http://h#', 'http://h?#', 'http://h/?a\'b"c<d>',
    'http://h/a^b`c{d}', 'http://h/#a^b`c{d}', 'javascript:alert(1)', 'JaVa\tScript:alert(1)', 'data:text/html,x', 'file:///etc/passwd',
    '//evil', '/relative', 'example.com', 'ht!tp://h', 'http', 'http:', 'http://', '', ' ', 'http://xn--/', 'http://xn--a', 'http://xn--zca/',
    'http://a%00b', 'http://a%2fb', 'http://%65xample.com', 'http://m%C3%BCnchen.de', 'http://%ff', 'http://ex%E3%80%82com', 'http://a..b/', 'http://./',
    'http://a_b.-c-/', 'http://r3---sn.example/', 'http://aa--bb.é/', '\u0001 http://h/ \u001f', 'ht\ntp://e\rx\tample.com/a\nb', 'http://h/\u0000',
];

const tokens = [
    ...'abcxyzABCXYZ0123456789', ...'/\\?#@:.[]%&=+-_~!$\'()*,;<>"`{}|^ ', '\t', '\n', '\r', '\u0000', '\u0001', '\u001f', '\u007f',
    '//', '..', '/../', '/./', '%2e', '%2E%2e', '%00', '%25', '%zz', '%', '%4', '%C3%A9', '%E1%BA%9E', '%ff', '%2f', '::', '[::1]', '1.2.3.4', '0x', '0x7f', '00', '256',
    '65535', ':80', ':443', ':0', 'xn--', 'xn--mnchen-3ya', 'http:', 'https:', 'HTTP://', 'ws://', 'http://', '@', 'user:pw@', '?a=b', '#f', '.', '。', '．', '｡',
    'é', 'É', 'ß', 'ẞ', 'ı', 'İ', 'ſ', 'ς', 'Σ', 'Å', 'ﬀ', '①', '½', '℀', '㎏', '１', 'Ａ', '／', '：', '＠', '％', '\u00ad', '\u200b', '\u200c', '\u200d', '\u2060', '\ufeff',
    '\u0301', '\u0327', '\u0f71', 'א', 'ב', 'ا', 'ب', '١', '۱', 'क', '्', 'ක', '්', '界', '가', 'ᄀ', '\u2028', '\u3000', '\u00a0', '\ufffd', '\ufdfa', '≠', '😀', '𝒜', '🏳️‍🌈',
];

// mulberry32: small, and the same everywhere.
let state = seed >>> 0;
function random(below) {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) % below;
}
const pick = (list) => list[random(list.length)];

// Cutting may leave half of a surrogate pair.
const wellFormed = (text) => Buffer.from(text).toString();

function anyCharacter() {
    for (;;) {
        const code = random(4) === 0 ? random(0x110000) : random(0x3000);
        if (code < 0xd800 || code > 0xdfff) return String.fromCodePoint(code);
    }
}

const mutations = [
    (text, at) => text.slice(0, at) + pick(tokens) + text.slice(at),
    (text, at) => text.slice(0, at) + pick(tokens) + text.slice(at + 1),
    (text, at) => text.slice(0, at) + text.slice(at + 1 + random(3)),
    (text, at) => text.slice(0, at) + pick(corpus).slice(random(12)),
    (text, at) => text.slice(0, at) + anyCharacter() + text.slice(at),
    (text, at) => text.slice(0, at) + text.slice(random(text.length + 1)),
    (text, at) => text.slice(0, at) + encodeURIComponent(wellFormed(text.slice(at, at + 1))) + text.slice(at + 1),
    (text, at) => text.slice(0, at) + text.slice(at).toUpperCase(),
    // The host is where most of the rules are.
    (text) => text.replace(/^(https?:\/\/)([^/?#]*)/, (_, head, host) => head + inHost(host)),
    (text) => text.replace(/^(https?:\/\/)([^/?#]*)/, (_, head, host) => head + inHost(host)),
];

function inHost(host) {
    const at = random(host.length + 1);
    return host.slice(0, at) + (random(2) ? pick(tokens) : anyCharacter()) + host.slice(at + random(2));
}

function generate() {
    let text = pick(corpus);
    for (let count = random(5); count > 0; count--) text = pick(mutations)(text, random(text.length + 1));
    return wellFormed(text);
}

function nodeUrl(input) {
    try {
        return new URL(input);
    } catch {
        return null;
    }
}

// What this Node.js should have said. The standard has percent-encoded ^ in paths since March 2025, as browsers did before,
// and Ada 2.9 overlooks dot segments behind a segment that starts with a dot.
function currentHref(url) {
    if (!/^https?:$/.test(url.protocol) || !/[.^]/.test(url.pathname)) return url.href;
    const [beforeQuery] = url.href.split(/[?#]/, 1);
    const origin = beforeQuery.slice(0, beforeQuery.length - url.pathname.length);
    return origin + withoutDots(url.pathname).replaceAll('^', '%5E') + url.href.slice(beforeQuery.length);
}

function withoutDots(path) {
    const segments = [];
    const all = path.split('/').slice(1);
    all.forEach((segment, i) => {
        const dots = segment.replace(/%2e/gi, '.');
        if (dots === '..') segments.pop();
        if (dots !== '..' && dots !== '.') segments.push(segment);
        else if (i === all.length - 1) segments.push('');
    });
    return '/' + segments.join('/');
}

// Letters and digits of scripts written from right to left (Bidi_Class R, AL or AN, by their blocks).
const rightToLeft = /[\u0590-\u08ff\u200f\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;
// What came with Unicode 14 and 15, of which Ada 2.9 does not know the direction.
const recent = new RegExp(`[${`
    61d 870-88e 890-891 898-89f 8b5 8c8-8d2 c3c c5d cdd cf3 ece 170d 1715 171f 180f 1ac1-1ace 1b4c 1b7d-1b7e 1dfa
    20c0 2c2f 2c5f 2e53-2e5d 9ffd-9fff a7c0-a7c1 a7d0-a7d1 a7d3 a7d5-a7d9 a7f2-a7f4 fbc2 fd40-fd4f fdcf fdfe-fdff
    10570-1057a 1057c-1058a 1058c-10592 10594-10595 10597-105a1 105a3-105b1 105b3-105b9 105bb-105bc 10780-10785
    10787-107b0 107b2-107ba 10efd-10eff 10f70-10f89 11070-11075 110c2 1123f-11241 116b9 11740-11746 11ab0-11abf
    11b00-11b09 11f00-11f10 11f12-11f3a 11f3e-11f59 12f90-12ff2 1342f 13439-13455 16a70-16abe 16ac0-16ac9
    1aff0-1aff3 1aff5-1affb 1affd-1affe 1b11f-1b122 1b132 1b155 1cf00-1cf2d 1cf30-1cf46 1cf50-1cfc3 1d1e9-1d1ea
    1d2c0-1d2d3 1df00-1df1e 1df25-1df2a 1e030-1e06d 1e08f 1e290-1e2ae 1e4d0-1e4f9 1e7e0-1e7e6 1e7e8-1e7eb
    1e7ed-1e7ee 1e7f0-1e7fe 1f6dc-1f6df 1f774-1f776 1f77b-1f77f 1f7d9 1f7f0 1f979 1f9cc 1fa75-1fa77 1fa7b-1fa7c
    1fa87-1fa88 1faa9-1faaf 1fab7-1fabd 1fabf 1fac3-1fac5 1face-1facf 1fad7-1fadb 1fae0-1fae8 1faf0-1faf8
    2a6de-2a6df 2b735-2b739 31350-323af
    `.trim().split(/\s+/).map((range) => range.replace(/[0-9a-f]+/g, (code) => `\\u{${code}}`)).join('')}]`, 'u');

// Capitals whose small letters are younger than they are, and characters without a shape: refused until Unicode 16.
const changedLater = /[\u04c0\u10a0-\u10c5\u2132\u2183\u115f\u1160\u17b4\u17b5\u180e\u2061-\u2064\u206a-\u206f\u3164\uffa0]/u;

const labels = (url) => domainToUnicode(url.hostname).split('.');

// Why a disagreement is none; in each the text of the current standard decides against this Node.js.
const weRefuse = {
    'another scheme': (node, ours) =>
        ours === `!${refusal.unsupported_scheme}` && !/^https?:$/.test(node.protocol),
    'a host beyond the documented limit': (node, ours) =>
        ours === `!${refusal.idna_too_long}` && node.href.length > 1000,
    'an A-label that stands for ASCII (UTS 46 revision 33)': (node, ours) =>
        ours === `!${refusal.invalid_idna}` && node.hostname.split('.').some((label) => /^xn--(.*-)?$/.test(label)),
    'an A-label with a delimiter and nothing before it (RFC 3492)': (node, ours) =>
        ours === `!${refusal.invalid_idna}` && node.hostname.split('.').some((label) => /^xn---[^-]*$/.test(label)),
    'a label that starts with a combining mark': (node, ours) =>
        ours === `!${refusal.invalid_idna}` && labels(node).some((label) => /^\p{M}/u.test(label)),
    'the Bidi rule, of which this Node.js checks a part': (node, ours) =>
        ours === `!${refusal.invalid_idna}` && rightToLeft.test(labels(node)),
    'an A-label that does not decode, which Ada 4 leaves as it is': (node, ours) =>
        ours === `!${refusal.invalid_idna}` && labels(node).some((label) => label.startsWith('xn--')),
    'a host that this Node.js does not normalize': (node) =>
        labels(node).some((label) => label !== label.normalize('NFC')),
    'a character that our ICU does not know yet': (node, ours, input, newest) =>
        ours === `!${refusal.invalid_idna}` && newest === 999,
    'a character that UTS 46 refuses before Unicode 16 only': (node, ours, input) =>
        ours === `!${refusal.invalid_idna}` && changedLater.test(input),
};
const weAccept = {
    'a right-to-left host with a character of Unicode 14 or 15': (input) =>
        rightToLeft.test(input) && recent.test(input),
    'a character that came after Unicode 15.0, the version of Ada 2.9': (input, newest) =>
        newest > 150 && newest < 999,
    'a character that UTS 46 refuses before Unicode 16 only': (input) =>
        changedLater.test(input),
};

// Unicode 15.1 maps capital to small sharp s, where it was "ss" before: what Node.js says of the small one must hold.
function isCapitalSharpS(input, node, ours) {
    const mapped = input.replace(/[\t\n\r]/g, '').replaceAll('ẞ', 'ß').replace(/%E1%BA%9E/gi, '%C3%9F');
    if (mapped === input) return false;
    const other = nodeUrl(mapped);
    if (!other) return ours.startsWith('!');
    const expected = new URL(currentHref(node));
    expected.hostname = other.hostname;
    return ours === currentHref(expected);
}

function excuse(input, node, ours, newest) {
    if (node && isCapitalSharpS(input, node, ours)) return 'capital sharp s (Unicode 15.1)';
    if (node) return Object.keys(weRefuse).find((name) => weRefuse[name](node, ours, input, newest));
    return Object.keys(weAccept).find((name) => weAccept[name](input, newest));
}

async function ask(inputs) {
    const child = spawn(driver, { stdio: ['pipe', 'pipe', 'inherit'] });
    child.stdin.end(inputs.map((input) => Buffer.from(input).toString('hex') + '\n').join(''));
    const chunks = [];
    for await (const chunk of child.stdout) chunks.push(chunk);
    const answers = Buffer.concat(chunks).toString('latin1').split('\n');
    answers.pop();
    if (answers.length !== inputs.length) throw new Error(`${driver} stopped at ${JSON.stringify(inputs[answers.length])}`);
    return answers;
}

async function main() {
    let equal = 0, refused = 0, failed = 0;
    const excused = {};
    for (let left = cases; left > 0; left -= batch) {
        const inputs = Array.from({ length: Math.min(left, batch) }, generate);
        (await ask(inputs)).forEach((answer, i) => {
            const [ours, newest] = answer.split('\t');
            const node = nodeUrl(inputs[i]);
            const expected = node && currentHref(node);
            if (node && ours === expected) return equal++;
            if (!node && ours.startsWith('!')) return refused++;
            const reason = excuse(inputs[i], node, ours, Number(newest));
            if (reason) excused[reason] = (excused[reason] ?? 0) + 1;
            else if (++failed <= 20)
                console.log(`${JSON.stringify(inputs[i])}\n  Node.js: ${expected ?? 'refuses'}\n  ours:    ${ours}`);
        });
    }
    console.log(`${cases} URLs, seed ${seed}, Node.js ${process.version}: ${equal} equal hrefs, ${refused} refused by both`);
    for (const [reason, count] of Object.entries(excused)) console.log(`  excused: ${count}, ${reason}`);
    console.log(`${failed} disagreements`);
    process.exit(failed === 0 ? 0 : 1);
}

main();
