#include "app/router.h"

#include <string>

#include <gtest/gtest.h>

namespace shortener {
namespace {

TEST(Router, FindsTheCode) {
    for (const char* target : {"/aZ09_-", "/aZ09_-/", "/aZ09_-?utm_source=x", "/aZ09_-/?", "/aZ09_-?/../"}) {
        EXPECT_EQ(route(target).place, Place::link) << target;
        EXPECT_EQ(route(target).code, "aZ09_-") << target;
    }
    EXPECT_EQ(route("/" + std::string(50, 'a')).place, Place::link);
}

TEST(Router, KnowsWhatCannotBeACode) {
    for (const char* target : {"", "*", "/", "//", "/?a", "/a//", "//a", "/a/b", "/a.b", "/a%62", "/../a", "/a;b", "abc",
                               "/metrics.", "/\xc3\xa9"})
        EXPECT_EQ(route(target).place, Place::nowhere) << target;
    EXPECT_EQ(route("/" + std::string(51, 'a')).place, Place::nowhere);
}

TEST(Router, AnswersForRobotsAndIcon) {
    EXPECT_EQ(route("/robots.txt").place, Place::robots);
    EXPECT_EQ(route("/robots.txt?x").place, Place::robots);
    EXPECT_EQ(route("/favicon.ico").place, Place::favicon);
}

} // namespace
} // namespace shortener
