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

#include "cache/asked.h"
#include "core/siphash.h"
#include "resolution.h"

namespace shortener {

// Which workspace a host means, and what a workspace says on its pages: small, learnt from the database, kept
// for a while, forgotten whole when a workspace or domain changes.
class WorkspaceCache {
  public:
    explicit WorkspaceCache(const SipKey& seed) : hosts_(0, Hasher{seed}) {}

    Ticket now_serving() const noexcept { return sequence_.load(std::memory_order_acquire); }

    std::optional<std::int64_t> workspace(std::string_view host, Clock::time_point now);
    void store_workspace(std::string_view host, std::int64_t workspace_id, const Asked& asked);

    // Null: not known.
    std::shared_ptr<const PageTexts> texts(std::int64_t workspace_id, Clock::time_point now) const;
    void store_texts(std::int64_t workspace_id, PageTexts texts, const Asked& asked);

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

    bool may_keep(const Asked& asked) const;

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
