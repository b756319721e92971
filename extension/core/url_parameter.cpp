#include "core/url_parameter.h"

#include <algorithm>

#include "core/ascii.h"

namespace shortener {

namespace {

std::string_view decode(std::string_view text, std::span<char> storage) noexcept {
    std::size_t length = 0;
    for (std::size_t i = 0; i < text.size() && length < storage.size(); i++) {
        char c = text[i] == '+' ? ' ' : text[i];
        if (c == '%' && i + 2 < text.size() && hex_value(text[i + 1]) >= 0 && hex_value(text[i + 2]) >= 0) {
            c = static_cast<char>(hex_value(text[i + 1]) * 16 + hex_value(text[i + 2]));
            i += 2;
        }
        storage[length++] = c;
    }
    return {storage.data(), length};
}

} // namespace

std::string_view url_parameter(std::string_view url, std::string_view name,
                               std::span<char> storage) noexcept {
    url = url.substr(0, url.find('#'));
    std::size_t begin = url.find('?');
    while (begin < url.size()) {
        begin++;
        const std::size_t end = std::min(url.find('&', begin), url.size());
        const std::string_view parameter = url.substr(begin, end - begin);
        if (parameter.size() > name.size() && parameter.starts_with(name) && parameter[name.size()] == '=')
            return decode(parameter.substr(name.size() + 1), storage);
        begin = end;
    }
    return {};
}

} // namespace shortener
