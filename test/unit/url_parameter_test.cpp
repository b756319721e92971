#include "core/url_parameter.h"

#include <gtest/gtest.h>

#include <string>

using namespace shortener;

namespace {

std::string parameter(std::string_view url, std::string_view name, std::size_t room = 100) {
    std::string storage(room, '\0');
    return std::string(url_parameter(url, name, storage));
}

TEST(UrlParameter, IsTheFirstOfItsName) {
    EXPECT_EQ(parameter("https://e/?b=0&a=1&a=2", "a"), "1");
    EXPECT_EQ(parameter("https://e/?ab=1&a=2", "a"), "2");
    EXPECT_EQ(parameter("https://e/?a&a=2", "a"), "2");
    EXPECT_EQ(parameter("https://e/?a=b=c", "a"), "b=c");
}

TEST(UrlParameter, IsEmptyWhereThereIsNone) {
    EXPECT_EQ(parameter("https://e/", "a"), "");
    EXPECT_EQ(parameter("https://e/?", "a"), "");
    EXPECT_EQ(parameter("https://e/?&&", "a"), "");
    EXPECT_EQ(parameter("https://e/?a=", "a"), "");
    EXPECT_EQ(parameter("https://e/#?a=1", "a"), "");
    EXPECT_EQ(parameter("", "a"), "");
}

TEST(UrlParameter, IsDecodedAndCut) {
    EXPECT_EQ(parameter("https://e/?a=x+y%2Bz", "a"), "x y+z");
    EXPECT_EQ(parameter("https://e/?a=%", "a"), "%");
    EXPECT_EQ(parameter("https://e/?a=%4", "a"), "%4");
    EXPECT_EQ(parameter("https://e/?a=%zz", "a"), "%zz");
    EXPECT_EQ(parameter("https://e/?a=12345", "a", 3), "123");
    EXPECT_EQ(parameter("https://e/?a=1", "a", 0), "");
}

} // namespace
