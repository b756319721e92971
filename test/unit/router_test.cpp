#include "app/router.h"

#include <string>

#include <gtest/gtest.h>

namespace shortener {
namespace {

Route route(std::string_view target) {
    static RouteStorage storage;
    return shortener::route(target, storage);
}

TEST(Router, FindsTheCode) {
    for (const char* target : {"/aZ09_-", "/aZ09_-/", "/aZ09_-?utm_source=x", "/aZ09_-/?", "/aZ09_-?/../"}) {
        EXPECT_EQ(route(target).place, Place::link) << target;
        EXPECT_EQ(route(target).code, "aZ09_-") << target;
    }
    EXPECT_EQ(route("/" + std::string(50, 'a')).place, Place::link);
}

TEST(Router, KnowsWhatCannotBeACode) {
    for (const char* target :
         {"",       "*",     "/",       "//",    "/?a",   "/a//",  "//a",       "/a/b",
          "/a.b",   "/a%2",  "/a%",     "/%zz",  "/%-1a", "/a%2F", "/%2Fa",     "%2Fa",
          "/a%3Fb", "/a%00", "/%C3%A9", "/../a", "/a;b",  "abc",   "/metrics.", "/\xc3\xa9"})
        EXPECT_EQ(route(target).place, Place::nowhere) << target;
    EXPECT_EQ(route("/" + std::string(51, 'a')).place, Place::nowhere);
}

TEST(Router, TakesAnEncodedCharacterForTheCharacter) {
    for (const char* target : {"/%67ood", "/good", "/%67%6F%6f%64", "/g%6Fod/", "/goo%64?%67"}) {
        EXPECT_EQ(route(target).place, Place::link) << target;
        EXPECT_EQ(route(target).code, "good") << target;
    }
    std::string longest, longer;
    for (int i = 0; i < 50; i++)
        longest += "%61";
    EXPECT_EQ(route("/" + longest).code, std::string(50, 'a'));
    for (int i = 0; i < 5000; i++)
        longer += "%61";
    EXPECT_EQ(route("/" + longer).place, Place::nowhere);
    EXPECT_EQ(route("/%72obots.txt").place, Place::robots);
}

TEST(Router, AnswersForRobotsAndIcon) {
    EXPECT_EQ(route("/robots.txt").place, Place::robots);
    EXPECT_EQ(route("/robots.txt?x").place, Place::robots);
    EXPECT_EQ(route("/favicon.ico").place, Place::favicon);
}

} // namespace
} // namespace shortener
