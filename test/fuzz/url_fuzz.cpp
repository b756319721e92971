#include <cstdlib>
#include <memory>
#include <string>

#include "core/url.h"

using namespace shortener;

namespace {

// Storage of exactly the bound, so that the sanitizer sees a byte too many.
struct Storage {
    explicit Storage(std::size_t input_length) : size(url_bound(input_length)), bytes(new char[size]) {}
    std::span<char> span() { return {bytes.get(), size}; }
    std::size_t size;
    std::unique_ptr<char[]> bytes;
};

void must(bool condition) {
    if (!condition)
        std::abort();
}

// A result is its own canonical form, and its parts put together are the whole.
void check_canonical(std::string_view href) {
    Storage storage(href.size());
    Url url;
    must(canonical_url(href, storage.span(), url) == UrlError::none && url.href == href);
    must(url.scheme == "http" || url.scheme == "https");
    must(!url.hostname.empty() && url.path.starts_with('/'));
    std::size_t length = url.scheme.size() + 3 + url.hostname.size() + url.path.size();
    if (url.has_credentials())
        length += url.username.size() + 1 + (url.password.empty() ? 0 : url.password.size() + 1);
    if (!url.port.empty())
        length += url.port.size() + 1;
    if (url.has_query)
        length += url.query.size() + 1;
    if (url.has_fragment)
        length += url.fragment.size() + 1;
    must(length == href.size());
    for (const char c : href)
        must(c > ' ' && c < 0x7F);
}

} // namespace

// The first byte chooses the rules, and whether the others are the whole URL or what follows the scheme, so
// that a short run gets to the host too.
extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
    if (size == 0)
        return 0;
    const auto rules = static_cast<UrlRules>(data[0] & static_cast<unsigned>(UrlRules::all));
    const std::string input = (data[0] & 16 ? "http://" : "") + std::string(data + 1, data + size);
    Storage canonical_storage(input.size()), key_storage(input.size());
    Url url;
    std::string_view key;
    const UrlError error = canonical_url(input, canonical_storage.span(), url);
    const UrlError key_error = normalize_url(input, rules, key_storage.span(), key);
    must(error != UrlError::idna_failed && (error == UrlError::none) == (url.href.data() != nullptr));
    must((key_error == UrlError::none) == (key.data() != nullptr));
    // Only the one byte of https can make a key too long where the URL is not.
    must(key_error == error || (key_error == UrlError::too_long && url.href.size() == url_max_length));
    if (key_error != UrlError::none)
        return 0;
    check_canonical(url.href);
    check_canonical(key);
    Storage key_again(key.size()), href_again(url.href.size());
    std::string_view again;
    must(normalize_url(key, rules, key_again.span(), again) == UrlError::none && again == key);
    must(normalize_url(url.href, rules, href_again.span(), again) == UrlError::none && again == key);
    return 0;
}
