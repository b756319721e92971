#include "app/service.h"

#include <utility>

#include <boost/asio/post.hpp>

#include "app/respond.h"
#include "app/router.h"
#include "log.h"

namespace shortener {

namespace {

std::uint64_t microseconds(Clock::duration duration) {
    return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(duration).count());
}

} // namespace

// A request that waits, with copies of what it needs.
struct Service::Visit {
    std::string code, host, accept, user_agent, referer, forwarded_for, peer;
    Method method;
    Clock::time_point begun;
    Done done;
    std::string flight;
    bool host_known = false;
    Cache::Ticket cache_ticket = 0;
    Directory::Ticket directory_ticket = 0;

    Request request() const {
        Request request;
        request.method = method;
        request.host = host;
        request.accept = accept;
        request.user_agent = user_agent;
        request.referer = referer;
        request.forwarded_for = forwarded_for;
        request.peer = peer;
        return request;
    }
};

Service::Service(boost::asio::io_context& context, Shared& shared, std::size_t thread, const ConnectionSettings& settings,
                 std::chrono::milliseconds database_timeout)
    : context_(context), shared_(shared), counters_(shared.metrics.slot(thread)),
      database_(context, settings, database_timeout, counters_, shared.metrics.gauges) {
    database_.start();
}

void Service::count(const Response& response, Clock::time_point begun) {
    counters_.count_request(response.status, microseconds(Clock::now() - begun));
}

// The one place where a served redirect is known: here clicks begin. HEAD is not a click.
void Service::announce(const Request& request, const Resolution& resolution, const Response& response) {
    if (request.method != Method::get || response.location.empty())
        return;
    Counters::add(counters_.clicks);
    const bool logged = logs(LogLevel::debug);
    if (!logged && !shared_.clicks)
        return;
    const std::string client = client_address(request.peer, request.forwarded_for, shared_.trusted_proxies);
    if (logged)
        log_line(LogLevel::debug, "redirect link=" + std::to_string(resolution.link_id) + " client=" + client);
    if (shared_.clicks)
        shared_.clicks->clicked({resolution.link_id, client, request.user_agent, request.referer});
}

bool Service::answer(const Request& request, Response& response) {
    const Clock::time_point now = Clock::now();
    RouteStorage storage;
    const Route where = route(request.target, storage);
    switch (where.place) {
    case Place::link:
        if (!answer_link(request, where.code, now, response))
            return false;
        break;
    case Place::robots:
        response = respond_robots(request);
        break;
    case Place::favicon:
        response = respond_favicon(request);
        break;
    case Place::nowhere:
        response = respond_not_found(request);
        break;
    }
    count(response, now);
    return true;
}

bool Service::answer_link(const Request& request, std::string_view code, Clock::time_point now, Response& response) {
    const auto workspace = shared_.directory.workspace(request.host, now);
    if (!workspace || !shared_.cache.find(*workspace, code, now, scratch_))
        return false;
    const int status = status_at(scratch_, now);
    std::shared_ptr<const PageTexts> texts;
    if (status == 404 || status == 410) {
        texts = shared_.directory.texts(*workspace, now);
        if (!texts)
            return false;
    }
    Counters::add(status == 404   ? counters_.hits_unknown
                  : status == 410 ? counters_.hits_gone
                                  : counters_.hits_redirect);
    response = respond(request, scratch_, texts.get(), now);
    announce(request, scratch_, response);
    return true;
}

void Service::answer_later(const Request& request, Done done) {
    Counters::add(counters_.in_flight_begun);
    auto visit = std::make_shared<Visit>();
    RouteStorage storage;
    visit->code = route(request.target, storage).code;
    visit->host = request.host;
    visit->accept = request.accept;
    visit->user_agent = request.user_agent;
    visit->referer = request.referer;
    visit->forwarded_for = request.forwarded_for;
    visit->peer = request.peer;
    visit->method = request.method;
    visit->begun = Clock::now();
    visit->done = std::move(done);

    // The link may be known while the texts for its page are not.
    const auto workspace = shared_.directory.workspace(visit->host, visit->begun);
    if (workspace && shared_.cache.find(*workspace, visit->code, visit->begun, scratch_)) {
        Answer answer;
        answer.known = true;
        answer.resolution = scratch_;
        boost::asio::post(context_, [this, visit, answer] { resolved(visit, answer); });
        return;
    }
    Counters::add(counters_.misses);
    visit->host_known = workspace.has_value();
    ask(visit);
}

void Service::ask(const std::shared_ptr<Visit>& visit) {
    visit->flight = visit->host + " " + visit->code;
    if (!shared_.flights.board(visit->flight, {this, [this, visit](const Answer& answer) { resolved(visit, answer); }})) {
        Counters::add(counters_.coalesced);
        return;
    }
    // Tickets first: what is notified from here on beats this question.
    visit->cache_ticket = shared_.cache.now_serving();
    visit->directory_ticket = shared_.directory.now_serving();
    database_.resolve(visit->host, visit->code, [this, visit](const Answer& answer) { landed(*visit, answer); });
}

void Service::landed(const Visit& visit, const Answer& answer) {
    if (answer.known) {
        // As of when it was asked: the answer cannot be older, but a standby may have been behind then.
        if (!visit.host_known)
            shared_.directory.store_workspace(visit.host, answer.resolution.workspace_id, visit.directory_ticket, visit.begun);
        shared_.cache.store(visit.code, answer.resolution, answer.cache_seconds, visit.cache_ticket, visit.begun);
    }
    // Whoever boards from here on finds the cache filled, or asks anew.
    for (Waiter& waiter : shared_.flights.land(visit.flight)) {
        if (waiter.home == this)
            waiter.told(answer);
        else
            boost::asio::post(waiter.home->context_, [told = std::move(waiter.told), answer] { told(answer); });
    }
}

void Service::resolved(const std::shared_ptr<Visit>& visit, const Answer& answer) {
    if (!answer.known) {
        Response response = respond_unavailable(visit->request());
        count(response, visit->begun);
        Counters::add(counters_.in_flight_ended);
        visit->done(std::move(response));
        return;
    }
    const Clock::time_point now = Clock::now();
    const int status = status_at(answer.resolution, now);
    const std::int64_t workspace_id = answer.resolution.workspace_id;
    if (status != 404 && status != 410)
        return finish(visit, answer.resolution, nullptr);
    if (const auto texts = shared_.directory.texts(workspace_id, now))
        return finish(visit, answer.resolution, texts.get());
    const Directory::Ticket ticket = shared_.directory.now_serving();
    database_.read_texts(workspace_id, [this, visit, resolution = answer.resolution, ticket, now](const PageTexts* texts) {
        if (texts)
            shared_.directory.store_texts(resolution.workspace_id, *texts, ticket, now);
        finish(visit, resolution, texts);
    });
}

void Service::finish(const std::shared_ptr<Visit>& visit, const Resolution& resolution, const PageTexts* texts) {
    const Request request = visit->request();
    Response response = respond(request, resolution, texts, Clock::now());
    announce(request, resolution, response);
    count(response, visit->begun);
    Counters::add(counters_.in_flight_ended);
    visit->done(std::move(response));
}

bool AdminService::answer(const Request& request, Response& response) {
    const std::string_view path = request.target.substr(0, std::min(request.target.find('?'), request.target.size()));
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
        const bool ready = shared_.metrics.gauges.databases > 0;
        response.status = ready ? 200 : 503;
        response.body = ready ? "ready\n" : "no database\n";
    } else if (path == "/metrics") {
        response.status = 200;
        response.content_type = "text/plain; version=0.0.4; charset=utf-8";
        response.body = shared_.metrics.text(shared_.cache);
    } else {
        response.body = "not found\n";
    }
    return true;
}

} // namespace shortener
