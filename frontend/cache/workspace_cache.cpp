#include "cache/workspace_cache.h"

#include <utility>

namespace shortener {

std::optional<std::int64_t> WorkspaceCache::workspace(std::string_view host, Clock::time_point now) {
    const std::lock_guard lock(mutex_);
    const auto found = hosts_.find(host);
    if (found == hosts_.end() || now >= found->second.fresh_until)
        return std::nullopt;
    found->second.asked_for = true;
    return found->second.workspace_id;
}

void WorkspaceCache::store_workspace(std::string_view host, std::int64_t workspace_id, const Asked& asked) {
    const std::lock_guard lock(mutex_);
    if (!may_keep(asked))
        return;
    const auto found = hosts_.find(host);
    if (found != hosts_.end()) {
        found->second = {workspace_id, asked.when + lifetime, true};
        return;
    }
    const auto place = hosts_.emplace(host, Host{workspace_id, asked.when + lifetime, false}).first;
    if (ring_.size() < max_hosts) {
        ring_.push_back(&place->first);
        return;
    }
    // Second chance: every host that was asked for gets it once, so this ends.
    for (;; hand_ = (hand_ + 1) % max_hosts) {
        const auto oldest = hosts_.find(*ring_[hand_]);
        if (std::exchange(oldest->second.asked_for, false))
            continue;
        ring_[hand_] = &place->first;
        hosts_.erase(oldest);
        hand_ = (hand_ + 1) % max_hosts;
        return;
    }
}

std::shared_ptr<const PageTexts> WorkspaceCache::texts(std::int64_t workspace_id,
                                                       Clock::time_point now) const {
    const std::lock_guard lock(mutex_);
    const auto found = texts_.find(workspace_id);
    if (found == texts_.end() || now >= found->second.fresh_until)
        return nullptr;
    return found->second.texts;
}

void WorkspaceCache::store_texts(std::int64_t workspace_id, PageTexts texts, const Asked& asked) {
    auto kept = std::make_shared<const PageTexts>(std::move(texts));
    const std::lock_guard lock(mutex_);
    if (!may_keep(asked))
        return;
    if (texts_.size() >= max_texts)
        texts_.clear(); // workspaces are made by the owner of the database, not by visitors
    texts_.insert_or_assign(workspace_id, Texts{std::move(kept), asked.when + lifetime});
}

bool WorkspaceCache::may_keep(const Asked& asked) const {
    return sequence_ <= asked.ticket && (!flushed_ || asked.when >= *flushed_ + asked.hold_off);
}

void WorkspaceCache::flush(Clock::time_point now) {
    const std::lock_guard lock(mutex_);
    sequence_.fetch_add(1, std::memory_order_acq_rel);
    flushed_ = now;
    hosts_.clear();
    ring_.clear();
    hand_ = 0;
    texts_.clear();
}

} // namespace shortener
