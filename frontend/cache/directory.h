#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/siphash.h"
#include "resolution.h"

namespace shortener {

// Which workspace a host means, and what a workspace says on its pages: small, learnt from the database, kept
// for a while, forgotten whole when a workspace or domain changes.
class Directory {
  public:
    using Ticket = std::uint64_t;

    // After a flush nothing is kept for `hold_off`: a standby may still say the old.
    explicit Directory(const SipKey& seed, std::chrono::milliseconds hold_off = {})
        : hold_off_(hold_off), hosts_(0, Hasher{seed}) {}

    Ticket now_serving() const noexcept { return sequence_.load(std::memory_order_acquire); }

    std::optional<std::int64_t> workspace(std::string_view host, Clock::time_point now);
    void store_workspace(std::string_view host, std::int64_t workspace_id, Ticket ticket,
                         Clock::time_point now);

    // Null: not known.
    std::shared_ptr<const PageTexts> texts(std::int64_t workspace_id, Clock::time_point now) const;
    void store_texts(std::int64_t workspace_id, PageTexts texts, Ticket ticket, Clock::time_point now);

    void flush(Clock::time_point now);

    static constexpr std::size_t max_hosts = 16384;
    static constexpr std::size_t max_texts = 4096;
    static constexpr std::chrono::seconds lifetime{300};

  private:
    struct Hasher {
        using is_transparent = void;
        SipKey seed;
        std::size_t operator()(std::string_view text) const noexcept { return siphash24(seed, text); }
    };
    struct Host {
        std::int64_t workspace_id;
        Clock::time_point fresh_until;
        bool asked_for; // since the hand last passed
    };
    struct Texts {
        std::shared_ptr<const PageTexts> texts;
        Clock::time_point fresh_until;
    };

    bool may_keep(Ticket ticket, Clock::time_point now) const;

    const std::chrono::milliseconds hold_off_;
    std::atomic<Ticket> sequence_{1};
    std::optional<Clock::time_point> flushed_;
    mutable std::mutex mutex_;
    std::unordered_map<std::string, Host, Hasher, std::equal_to<>> hosts_;
    // The hosts, for replacing those that nobody asks for again: hosts are whatever visitors send.
    std::vector<const std::string*> ring_;
    std::size_t hand_ = 0;
    std::unordered_map<std::int64_t, Texts> texts_;
};

} // namespace shortener
