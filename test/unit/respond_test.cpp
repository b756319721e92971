#include "app/respond.h"

#include <map>
#include <string>

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/sha.h>

namespace shortener {
namespace {

using namespace std::chrono_literals;

const Clock::time_point now = Clock::time_point(1000h);

Resolution link(int status) {
    Resolution resolution;
    resolution.status = status;
    resolution.location = "https://example.com/?a=1";
    return resolution;
}

Resolution nothing(int status) {
    Resolution resolution;
    resolution.status = status;
    return resolution;
}

Request with(Method method, std::string_view accept = "text/html") {
    Request request;
    request.method = method;
    request.accept = accept;
    return request;
}

std::map<std::string, std::string> fields(const Response& response) {
    std::map<std::string, std::string> all;
    for_each_field(response,
                   [&](std::string_view name, std::string_view value) { all[std::string(name)] = value; });
    return all;
}

TEST(Respond, SendsTemporaryRedirectsThatNobodyKeeps) {
    for (const int status : {302, 307}) {
        const Response response = respond(with(Method::get), link(status), nullptr, now);
        EXPECT_EQ(response.status, status);
        const auto all = fields(response);
        EXPECT_EQ(all.at("Location"), "https://example.com/?a=1");
        EXPECT_EQ(all.at("Cache-Control"), "private, no-store");
        EXPECT_EQ(all.at("X-Robots-Tag"), "noindex");
        EXPECT_EQ(response.body, "");
    }
}

TEST(Respond, LetsPermanentRedirectsBeKeptUntilTheyExpire) {
    for (const int status : {301, 308}) {
        Resolution resolution = link(status);
        EXPECT_EQ(fields(respond(with(Method::get), resolution, nullptr, now)).at("Cache-Control"),
                  "public, max-age=300");
        resolution.expires = now + 42s + 900ms;
        EXPECT_EQ(fields(respond(with(Method::get), resolution, nullptr, now)).at("Cache-Control"),
                  "public, max-age=42");
        resolution.expires = now + 1h;
        EXPECT_EQ(fields(respond(with(Method::get), resolution, nullptr, now)).at("Cache-Control"),
                  "public, max-age=300");
        resolution.expires = now + 1ms;
        EXPECT_EQ(fields(respond(with(Method::get), resolution, nullptr, now)).at("Cache-Control"),
                  "public, max-age=0");
    }
}

TEST(Respond, TurnsAnExpiredLinkIntoAGoneOne) {
    Resolution resolution = link(301);
    resolution.expires = now;
    const Response response = respond(with(Method::get), resolution, nullptr, now);
    EXPECT_EQ(response.status, 410);
    EXPECT_EQ(response.location, "");
    EXPECT_NE(response.body.find("no longer available"), std::string::npos);
}

TEST(Respond, ForwardsOtherMethodsOnlyWhereTheyAreKept) {
    for (const int status : {307, 308}) {
        const Response response = respond(with(Method::other), link(status), nullptr, now);
        EXPECT_EQ(response.status, status);
        EXPECT_NE(response.location, "");
    }
    for (const int status : {301, 302}) {
        const Response response = respond(with(Method::other), link(status), nullptr, now);
        EXPECT_EQ(response.status, 405);
        EXPECT_EQ(fields(response).at("Allow"), "GET, HEAD");
        EXPECT_EQ(response.location, "");
    }
    EXPECT_EQ(respond(with(Method::other), nothing(404), nullptr, now).status, 404);
    EXPECT_EQ(respond(with(Method::head), link(301), nullptr, now).status, 301);
}

TEST(Respond, GivesAPageOrALineOfJson) {
    for (const int status : {404, 410}) {
        const Response page = respond(with(Method::get), nothing(status), nullptr, now);
        const auto all = fields(page);
        EXPECT_EQ(page.status, status);
        EXPECT_EQ(all.at("Content-Type"), "text/html; charset=utf-8");
        EXPECT_EQ(all.at("Vary"), "Accept");
        EXPECT_EQ(all.at("X-Content-Type-Options"), "nosniff");
        EXPECT_EQ(all.at("Cache-Control"), "no-store");
        EXPECT_NE(all.at("Content-Security-Policy").find("default-src 'none'"), std::string::npos);
        EXPECT_EQ(page.body.find("<script"), std::string::npos);
        EXPECT_LT(page.body.size(), 2048u);

        const Response line = respond(with(Method::get, "application/json"), nothing(status), nullptr, now);
        EXPECT_EQ(line.content_type, "application/json");
        EXPECT_EQ(line.body, status == 404 ? "{\"status\":404,\"error\":\"not_found\"}\n"
                                           : "{\"status\":410,\"error\":\"gone\"}\n");
    }
    const char* browser = "text/html,application/xhtml+xml,application/json;q=0.5";
    EXPECT_EQ(respond(with(Method::get, browser), nothing(404), nullptr, now).content_type,
              "text/html; charset=utf-8");
    EXPECT_EQ(respond(with(Method::get, ""), nothing(404), nullptr, now).content_type,
              "text/html; charset=utf-8");
}

std::string between(const std::string& text, const std::string& begin, const std::string& end) {
    const std::size_t from = text.find(begin), to = text.find(end, from);
    return from == std::string::npos || to == std::string::npos
               ? ""
               : text.substr(from + begin.size(), to - from - begin.size());
}

TEST(Respond, AllowsItsOwnStyleSheetAndNoOther) {
    for (const Response& page :
         {respond(with(Method::get), nothing(404), nullptr, now),
          respond(with(Method::get), nothing(410), nullptr, now),
          respond(with(Method::other), link(302), nullptr, now), respond_unavailable(with(Method::get))}) {
        const std::string style = between(page.body, "<style>", "</style>");
        ASSERT_NE(style, "");
        unsigned char digest[SHA256_DIGEST_LENGTH];
        SHA256(reinterpret_cast<const unsigned char*>(style.data()), style.size(), digest);
        unsigned char base64[64];
        EVP_EncodeBlock(base64, digest, sizeof digest);
        EXPECT_EQ(between(fields(page).at("Content-Security-Policy"), "style-src ", ";"),
                  std::string("'sha256-") + reinterpret_cast<const char*>(base64) + "'");
    }
}

TEST(Respond, ShowsAWorkspacesTextAsText) {
    PageTexts texts;
    texts.not_found = "Ask <b>us</b> & \"them\"";
    const Response response = respond(with(Method::get), nothing(404), &texts, now);
    // In the direction of its own script, whatever the language of the rest.
    EXPECT_NE(response.body.find("<p dir=\"auto\">Ask &lt;b&gt;us&lt;/b&gt; &amp; &quot;them&quot;</p>"),
              std::string::npos);
    EXPECT_EQ(response.body.find("check the address"), std::string::npos);
    EXPECT_NE(respond(with(Method::get), nothing(410), &texts, now).body.find("has expired"),
              std::string::npos);
}

TEST(Respond, SaysWhenToComeBack) {
    const Response response = respond_unavailable(with(Method::get));
    EXPECT_EQ(response.status, 503);
    EXPECT_EQ(fields(response).at("Retry-After"), "1");
}

TEST(Respond, AnswersLocally) {
    EXPECT_EQ(respond_robots(with(Method::get)).status, 200);
    EXPECT_NE(respond_robots(with(Method::get)).body.find("User-agent: *"), std::string::npos);
    EXPECT_EQ(respond_robots(with(Method::other)).status, 405);
    EXPECT_EQ(respond_favicon(with(Method::get)).status, 204);
    EXPECT_EQ(respond_favicon(with(Method::other)).status, 405);
    EXPECT_EQ(respond_not_found(with(Method::get)).status, 404);
    EXPECT_TRUE(refusal(400).close);
}

TEST(Respond, WritesBytes) {
    std::string bytes;
    append_response(respond(with(Method::get), link(302), nullptr, now), {false, true, false, "today"},
                    bytes);
    EXPECT_EQ(bytes,
              "HTTP/1.1 302 Found\r\nDate: today\r\nLocation: https://example.com/?a=1\r\n"
              "Cache-Control: private, no-store\r\nX-Robots-Tag: noindex\r\nContent-Length: 0\r\n\r\n");
    bytes.clear();
    append_response(respond_robots(with(Method::head)), {true, false, false, "today"}, bytes);
    EXPECT_NE(bytes.find("Content-Length: 23\r\nConnection: close\r\n\r\n"), std::string::npos);
    EXPECT_TRUE(bytes.ends_with("\r\n\r\n")) << "no body for HEAD";
    bytes.clear();
    append_response(respond_favicon(with(Method::get)), {false, true, true, "today"}, bytes);
    EXPECT_EQ(bytes.find("Content-Length"), std::string::npos);
    EXPECT_NE(bytes.find("Connection: keep-alive\r\n"), std::string::npos);
}

} // namespace
} // namespace shortener
