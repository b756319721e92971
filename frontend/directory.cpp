#include "directory.h"

#include <utility>

namespace shortener {

namespace {

// Hosts are whatever visitors send. When there is no more room the entry at the front goes, which is the one
// that came last: a flood of made-up hosts pushes out itself.
template <typename Map> void make_room(Map& map, std::size_t limit) {
    if (map.size() >= limit)
        map.erase(map.begin());
}

} // namespace

std::optional<std::int64_t> Directory::workspace(std::string_view host, Clock::time_point now) const {
    const std::lock_guard lock(mutex_);
    const auto found = hosts_.find(host);
    if (found == hosts_.end() || now >= found->second.fresh_until)
        return std::nullopt;
    return found->second.workspace_id;
}

void Directory::store_workspace(std::string_view host, std::int64_t workspace_id, Ticket ticket, Clock::time_point now) {
    const std::lock_guard lock(mutex_);
    if (sequence_ > ticket)
        return;
    const auto found = hosts_.find(host);
    if (found != hosts_.end()) {
        found->second = {workspace_id, now + lifetime};
        return;
    }
    make_room(hosts_, max_hosts);
    hosts_.emplace(host, Host{workspace_id, now + lifetime});
}

std::shared_ptr<const PageTexts> Directory::texts(std::int64_t workspace_id, Clock::time_point now) const {
    const std::lock_guard lock(mutex_);
    const auto found = texts_.find(workspace_id);
    if (found == texts_.end() || now >= found->second.fresh_until)
        return nullptr;
    return found->second.texts;
}

void Directory::store_texts(std::int64_t workspace_id, PageTexts texts, Ticket ticket, Clock::time_point now) {
    auto kept = std::make_shared<const PageTexts>(std::move(texts));
    const std::lock_guard lock(mutex_);
    if (sequence_ > ticket)
        return;
    make_room(texts_, max_texts);
    texts_.insert_or_assign(workspace_id, Texts{std::move(kept), now + lifetime});
}

void Directory::flush() {
    const std::lock_guard lock(mutex_);
    sequence_.fetch_add(1, std::memory_order_acq_rel);
    hosts_.clear();
    texts_.clear();
}

} // namespace shortener
