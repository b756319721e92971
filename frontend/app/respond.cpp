#include "app/respond.h"

#include <algorithm>
#include <string_view>

#include "core/cache_times.h"

namespace shortener {

namespace {

constexpr std::string_view html = "text/html; charset=utf-8";
constexpr std::string_view json = "application/json";
// The page needs its own style sheet and nothing else. The hash is that of the bytes between the style tags,
// checked by a test.
constexpr std::string_view page_policy =
    "default-src 'none'; style-src 'sha256-B38JO45XqpA+xNdp4pPkpx16n3FLN67KxBEYA1zz420='; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'";
constexpr std::string_view style =
    ":root{color-scheme:light dark;--paper:#fff;--ink:#1a1a1a;--soft:#666}"
    "@media(prefers-color-scheme:dark){:root{--paper:#16181c;--ink:#eceef1;--soft:#9aa0a8}}"
    "body{margin:0;min-height:100vh;display:flex;align-items:center;justify-content:center;"
    "background:var(--paper);color:var(--ink);font:1.125rem/1.5 system-ui,sans-serif}"
    "main{box-sizing:border-box;width:100%;max-width:34rem;padding:1.5rem;overflow-wrap:anywhere}"
    "h1{margin:0 0 .5rem;font-size:1.75rem;line-height:1.2}"
    "p{margin:0;white-space:pre-line}"
    "small{display:block;margin-top:1.5rem;color:var(--soft)}";

struct Page {
    std::string_view title, text, error;
};

Page page_of(int status) {
    switch (status) {
    case 404:
        return {"This link does not exist", "Please check the address: upper and lower case matter.",
                "not_found"};
    case 410:
        return {"This link is no longer available", "It has expired or was taken back by its owner.", "gone"};
    case 405: return {"This link can only be opened", "It does not accept data.", "method_not_allowed"};
    default:
        return {"Please try again in a moment", "The service is busy or being restarted.", "unavailable"};
    }
}

std::string escape_html(std::string_view text) {
    std::string escaped;
    escaped.reserve(text.size());
    for (const char c : text) {
        switch (c) {
        case '&': escaped += "&amp;"; break;
        case '<': escaped += "&lt;"; break;
        case '>': escaped += "&gt;"; break;
        case '"': escaped += "&quot;"; break;
        case '\'': escaped += "&#39;"; break;
        default: escaped += c;
        }
    }
    return escaped;
}

// A client gets JSON if it names application/json and not text/html.
bool wants_json(std::string_view accept) {
    return accept.find("application/json") != std::string_view::npos &&
           accept.find("text/html") == std::string_view::npos;
}

void set_page(Response& response, const Request& request, std::string_view text) {
    const Page page = page_of(response.status);
    response.vary_accept = true;
    if (wants_json(request.accept)) {
        response.content_type = json;
        response.body.append("{\"status\":").append(std::to_string(response.status));
        response.body.append(",\"error\":\"").append(page.error).append("\"}\n");
        return;
    }
    response.content_type = html;
    response.security_policy = page_policy;
    std::string& body = response.body;
    body.reserve(1536 + text.size());
    body.append("<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n"
                "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>")
        .append(page.title)
        .append("</title>\n<style>")
        .append(style)
        .append("</style>\n<main>\n<h1>")
        .append(page.title)
        .append("</h1>\n<p dir=\"auto\">")
        .append(escape_html(text.empty() ? page.text : text))
        .append("</p>\n<small>")
        .append(std::to_string(response.status))
        .append(" ")
        .append(reason(response.status))
        .append("</small>\n</main>\n");
}

} // namespace

Response respond(const Request& request, const Resolution& resolution, const PageTexts* texts,
                 Clock::time_point now) {
    Response response;
    response.status = status_at(resolution, now);
    const bool permanent = response.status == 301 || response.status == 308;
    const bool keeps_method = response.status == 307 || response.status == 308;

    if (response.status == 404 || response.status == 410) {
        // A later create, revival or enabling must be seen at the next visit.
        response.cache_control = "no-store";
        const std::optional<std::string>* text = !texts                   ? nullptr
                                                 : response.status == 404 ? &texts->not_found
                                                                          : &texts->gone;
        set_page(response, request, text && *text ? std::string_view(**text) : std::string_view());
        return response;
    }
    if (request.method == Method::other && !keeps_method) {
        response.status = 405;
        response.allow_get_head = true;
        response.cache_control = "no-store";
        set_page(response, request, {});
        return response;
    }
    response.location = resolution.location;
    response.noindex = true;
    if (permanent) {
        std::int64_t seconds = longest_live.count();
        if (resolution.expires != Clock::time_point::max())
            seconds = std::min<std::int64_t>(
                seconds, std::chrono::duration_cast<std::chrono::seconds>(resolution.expires - now).count());
        response.max_age = seconds;
    } else {
        response.cache_control = "private, no-store";
    }
    return response;
}

Response respond_not_found(const Request& request) {
    return respond(request, Resolution{}, nullptr, Clock::time_point::min());
}

Response respond_unavailable(const Request& request) {
    Response response;
    response.status = 503;
    response.retry_after = 1;
    response.cache_control = "no-store";
    set_page(response, request, {});
    return response;
}

Response respond_robots(const Request& request) {
    if (request.method == Method::other) {
        Response response = text_response(405, "method not allowed\n");
        response.allow_get_head = true;
        return response;
    }
    // Crawlers may follow links, else they never see that a redirect says noindex.
    Response response = text_response(200, "User-agent: *\nAllow: /\n");
    response.max_age = 86400;
    return response;
}

Response respond_favicon(const Request& request) {
    if (request.method == Method::other)
        return respond_robots(request);
    Response response;
    response.status = 204;
    response.max_age = 86400;
    return response;
}

} // namespace shortener
