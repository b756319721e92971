// Reads one URL a line, its UTF-8 in hexadecimal, and prints its href, or its refusal as "!" and a number;
// and behind a tab with which version of Unicode its newest character came, 999 for one that ICU does not
// know.

#include <algorithm>
#include <iostream>
#include <string>

#include <unicode/uchar.h>
#include <unicode/utf8.h>

#include "core/ascii.h"
#include "core/url.h"

using namespace shortener;

namespace {

int newest_character(const std::string& text) {
    int newest = 0;
    for (int32_t i = 0, length = static_cast<int32_t>(text.size()); i < length;) {
        UChar32 c;
        U8_NEXT(text.data(), i, length, c);
        UVersionInfo version;
        u_charAge(c, version);
        newest = std::max(newest, version[0] == 0 ? 999 : version[0] * 10 + version[1]);
    }
    return newest;
}

} // namespace

int main() {
    std::ios::sync_with_stdio(false);
    std::string line, input, storage;
    while (std::getline(std::cin, line)) {
        input.clear();
        for (std::size_t i = 0; i + 1 < line.size(); i += 2)
            input += static_cast<char>(hex_value(line[i]) * 16 + hex_value(line[i + 1]));
        storage.resize(url_bound(input.size()));
        Url url;
        if (const UrlError error = canonical_url(input, storage, url); error != UrlError::none)
            std::cout << '!' << static_cast<int>(error);
        else
            std::cout << url.href;
        std::cout << '\t' << newest_character(input) << '\n';
    }
}
