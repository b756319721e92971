#include <cstdlib>
#include <cstring>

#include "core/scramble.h"

// Scrambling stays in its range and has an inverse, for every key, position and domain.
extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
    using namespace shortener;
    std::uint64_t words[5] = {};
    std::memcpy(words, data, size < sizeof words ? size : sizeof words);
    const SipKey key{words[0], words[1]};

    const std::int64_t position = static_cast<std::int64_t>(words[2] >> 1) % scramble_count;
    const std::int64_t number = scramble(key, position);
    if (number < scramble_first || unscramble(key, number) != position)
        std::abort();

    const std::uint64_t domain = (words[3] >> (words[4] % 64)) / 2 + 1;
    const std::uint64_t image = permute(key, words[4], domain, words[2] % domain);
    if (image >= domain || unpermute(key, words[4], domain, image) != words[2] % domain)
        std::abort();
    return 0;
}
