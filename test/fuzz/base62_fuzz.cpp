#include <cstdlib>

#include "core/base62.h"

// What decode accepts, encode gives back to the letter.
extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
    using namespace shortener;
    const std::string_view digits(reinterpret_cast<const char*>(data), size);
    std::int64_t value = -1;
    if (base62_decode(digits, value) != Base62Error::none) {
        if (value != -1)
            std::abort();
        return 0;
    }
    char again[base62_max_length];
    if (value < 0 || std::string_view(again, base62_encode(value, again)) != digits)
        std::abort();
    return 0;
}
