// Reads one URL a line, its UTF-8 in hexadecimal, and prints its href, or its refusal as "!" and a number.

#include <iostream>
#include <string>

#include "core/ascii.h"
#include "core/url.h"

using namespace shortener;

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
            std::cout << '!' << static_cast<int>(error) << '\n';
        else
            std::cout << url.href << '\n';
    }
}
