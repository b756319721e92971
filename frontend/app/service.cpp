#include "app/service.h"

#include <algorithm>
#include <utility>

#include <boost/asio/post.hpp>

#include "app/respond.h"
#include "app/router.h"
#include "log.h"

namespace shortener {

namespace {

std::uint64_t microseconds(Clock::duration duration) {
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::microseconds>(duration).count());
}

// Longer than visitors wait: a late answer is kept.
std::chrono::milliseconds statement_patience(std::chrono::milliseconds timeout) {
    return std::max<std::chrono::milliseconds>(std::chrono::seconds(5), 2 * timeout);
}

} // namespace

Service::Service(boost::asio::io_context& context, Shared& shared, std::size_t thread,
                 const ServiceSettings& settings)
    : context_(context), shared_(shared), settings_(settings), counters_(shared.metrics.slot(thread)),
      codes_(context, settings.database_timeout, counters_, shared.database, thread,
             settings.database.default_workspace),
      texts_(context, settings.database_timeout, counters_),
      database_(context, {settings.database, "resolve codes", statement_patience(settings.database_timeout)},
                {&codes_, &texts_}, counters_,
                [&status = shared.database](bool works) { status.resolving += works ? 1 : -1; }) {
    database_.start();
}

void Service::tick(Clock::time_point now) {
    codes_.expire(now);
    texts_.expire(now);
    const std::uint64_t returned = shared_.database.returned;
    if (std::exchange(returned_, returned) != returned)
        database_.hurry();
}

// The one place where the answer to a visit is known: here clicks begin. Neither HEAD is a click nor what a
// browser fetches in case it will be wanted.
void Service::announce(const Request& request, std::string_view code, const Resolution& resolution,
                       const Response& response) {
    if (request.method != Method::get || request.prefetch)
        return;
    if (response.location.empty()) {
        if (response.status == 404 && shared_.clicks)
            shared_.clicks->missed(request.host, code);
        return;
    }
    Counters::add(counters_.clicks);
    const bool logged = logs(LogLevel::debug);
    if (!logged && !shared_.clicks)
        return;
    const std::string visitor =
        visitor_address(request.peer, request.forwarded_for, settings_.trusted_proxies);
    if (logged)
        log_line(LogLevel::debug,
                 "redirect link=" + std::to_string(resolution.link_id) + " client=" + visitor);
    if (shared_.clicks)
        shared_.clicks->clicked(
            {resolution.link_id, resolution.workspace_id, visitor, request.user_agent, request.referer});
}

std::shared_ptr<PendingRequest> Service::answer(const Request& request, Response& response) {
    const Clock::time_point now = Clock::now();
    RouteStorage storage;
    const Route where = route(request.target, storage);
    switch (where.place) {
    case Place::link:
        if (auto visit = answer_link(request, where.code, now, response))
            return visit;
        break;
    case Place::robots: response = respond_robots(request); break;
    case Place::favicon: response = respond_favicon(request); break;
    case Place::nowhere: response = respond_not_found(request); break;
    }
    counters_.count_request(response.status, microseconds(Clock::now() - now));
    return nullptr;
}

std::shared_ptr<Visit> Service::answer_link(const Request& request, std::string_view code,
                                            Clock::time_point now, Response& response) {
    const auto workspace = shared_.workspaces.workspace(request.host, now);
    const bool found = workspace && shared_.cache.find(*workspace, code, now, scratch_);
    const int status = found ? status_at(scratch_, now) : 0;
    const bool needs_texts = status == 404 || status == 410;
    const auto texts = needs_texts ? shared_.workspaces.texts(*workspace, now) : nullptr;
    if (!found || (needs_texts && !texts)) {
        auto visit = std::make_shared<Visit>(*this, request, code, now);
        visit->host_known = workspace.has_value();
        if (found)
            visit->resolution = scratch_;
        return visit;
    }
    Counters::add(status == 404   ? counters_.hits_unknown
                  : status == 410 ? counters_.hits_gone
                                  : counters_.hits_redirect);
    response = respond(request, scratch_, texts.get(), now);
    announce(request, code, scratch_, response);
    return nullptr;
}

void Service::start(const std::shared_ptr<Visit>& visit) {
    Counters::add(counters_.in_flight_begun);
    // The link may be known while the texts for its page are not.
    if (visit->resolution) {
        boost::asio::post(context_, [this, visit] { resolved(visit); });
        return;
    }
    Counters::add(counters_.misses);
    // Tickets first: what is notified from here on beats this question.
    visit->code_ticket = shared_.cache.now_serving();
    visit->workspace_ticket = shared_.workspaces.now_serving();
    if (shared_.flights.board(visit))
        codes_.ask(visit);
    else
        Counters::add(counters_.coalesced);
}

Asked Service::asked(const Visit& visit, Ticket ticket, bool from_standby) const {
    return {ticket, visit.begun,
            from_standby || settings_.always_standby ? settings_.standby_delay
                                                     : std::chrono::milliseconds(0)};
}

void Service::keep(const Visit& visit, const CodeAnswer& answer) {
    const Asked when = asked(visit, visit.workspace_ticket, answer.from_standby);
    if (!visit.host_known)
        shared_.workspaces.store_workspace(visit.host(), answer.resolution.workspace_id, when);
    std::chrono::seconds seconds = answer.cache_seconds;
    // Nobody is notified of a new link; a standby may just not have it yet.
    if (answer.resolution.status == 404 && when.hold_off > std::chrono::milliseconds(0))
        seconds = std::min(seconds, std::chrono::ceil<std::chrono::seconds>(when.hold_off));
    shared_.cache.store(visit.code(), answer.resolution, seconds,
                        asked(visit, visit.code_ticket, answer.from_standby));
}

// Whoever boards from here on finds the cache filled, or asks anew.
void Service::landed(const Visit& visit, const CodeAnswer* answer) {
    for (const std::shared_ptr<Visit>& other : shared_.flights.land(visit.flight())) {
        if (answer)
            other->resolution = answer->resolution;
        if (&other->home == this)
            resolved(other);
        else
            boost::asio::post(other->home.context_, [other] { other->home.resolved(other); });
    }
}

void Service::resolved(const std::shared_ptr<Visit>& visit) {
    if (!visit->resolution)
        return end(*visit, respond_unavailable(visit->request()));
    const Clock::time_point now = Clock::now();
    const int status = status_at(*visit->resolution, now);
    if (status != 404 && status != 410)
        return finish(*visit, nullptr);
    if (const auto texts = shared_.workspaces.texts(visit->workspace_id(), now))
        return finish(*visit, texts.get());
    visit->workspace_ticket = shared_.workspaces.now_serving();
    texts_.ask(visit);
}

void Service::keep(const Visit& visit, const TextsAnswer& answer) {
    shared_.workspaces.store_texts(visit.workspace_id(), answer.texts,
                                   asked(visit, visit.workspace_ticket, answer.from_standby));
}

void Service::finish(Visit& visit, const PageTexts* texts) {
    Response response = respond(visit.request(), *visit.resolution, texts, Clock::now());
    announce(visit.request(), visit.code(), *visit.resolution, response);
    end(visit, std::move(response));
}

void Service::end(Visit& visit, Response response) {
    counters_.count_request(response.status, microseconds(Clock::now() - visit.begun));
    Counters::add(counters_.in_flight_ended);
    std::exchange(visit.done, nullptr)(std::move(response));
}

std::shared_ptr<PendingRequest> AdminService::answer(const Request& request, Response& response) {
    const std::string_view path =
        request.target.substr(0, std::min(request.target.find('?'), request.target.size()));
    response = Response{};
    response.cache_control = "no-store";
    response.content_type = "text/plain; charset=utf-8";
    if (request.method == Method::other) {
        response.status = 405;
        response.allow_get_head = true;
        response.body = "method not allowed\n";
    } else if (path == "/healthz") {
        response.status = 200;
        response.body = "ok\n";
    } else if (path == "/readyz") {
        const char* problem = shared_.database.resolving == 0          ? "no database\n"
                              : shared_.database.without_workspace > 0 ? "no default workspace\n"
                                                                       : nullptr;
        response.status = problem ? 503 : 200;
        response.body = problem ? problem : "ready\n";
    } else if (path == "/metrics") {
        response.status = 200;
        response.content_type = "text/plain; version=0.0.4; charset=utf-8";
        response.body = shared_.metrics.text(shared_.cache.sizes(), shared_.database.resolving);
    } else {
        response.body = "not found\n";
    }
    return nullptr;
}

} // namespace shortener
