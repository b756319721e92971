#include "core/yaml_records.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>

#include <yaml.h>

namespace shortener {

std::string_view YamlRecord::operator[](std::string_view key) const noexcept {
    const auto field =
        std::find_if(fields.begin(), fields.end(), [&](const auto& f) { return f.first == key; });
    return field == fields.end() ? std::string_view() : field->second;
}

namespace {

class Event {
  public:
    explicit Event(yaml_parser_t& parser) : is_valid_(yaml_parser_parse(&parser, &event_)) {}
    ~Event() {
        if (is_valid_)
            yaml_event_delete(&event_);
    }
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;

    bool is_valid() const { return is_valid_; }
    yaml_event_type_t type() const { return event_.type; }
    int line() const { return static_cast<int>(event_.start_mark.line) + 1; }
    std::string_view text() const {
        const auto& scalar = event_.data.scalar;
        return {reinterpret_cast<const char*>(scalar.value), scalar.length};
    }

  private:
    yaml_event_t event_ = {};
    bool is_valid_;
};

struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
};

class RecordReader {
  public:
    explicit RecordReader(const std::string& path) : path_(path), file_(std::fopen(path.c_str(), "r")) {
        if (!file_)
            throw std::runtime_error("could not open file \"" + path + "\": " + std::strerror(errno));
        if (!yaml_parser_initialize(&parser_))
            throw std::bad_alloc();
        yaml_parser_set_input_file(&parser_, file_.get());
    }
    ~RecordReader() { yaml_parser_delete(&parser_); }
    RecordReader(const RecordReader&) = delete;
    RecordReader& operator=(const RecordReader&) = delete;

    template <typename Take> void read(Take&& take) {
        expect(YAML_STREAM_START_EVENT, "the start of the file");
        expect(YAML_DOCUMENT_START_EVENT, "a document");
        expect(YAML_MAPPING_START_EVENT, "names of lists");
        each_until(YAML_MAPPING_END_EVENT, [&](const Event& name) {
            const std::string list(scalar(name));
            expect(YAML_SEQUENCE_START_EVENT, "a list");
            each_until(YAML_SEQUENCE_END_EVENT, [&](const Event& start) {
                if (start.type() != YAML_MAPPING_START_EVENT)
                    fail(start.line(), "expected a record");
                take(list, record(start.line()));
            });
        });
    }

  private:
    YamlRecord record(int line) {
        YamlRecord record{line, {}};
        each_until(YAML_MAPPING_END_EVENT, [&](const Event& key) {
            std::string name(scalar(key));
            const Event value(parser_);
            check(value);
            record.fields.emplace_back(std::move(name), scalar(value));
        });
        return record;
    }

    template <typename Take> void each_until(yaml_event_type_t end, Take&& take) {
        for (;;) {
            const Event event(parser_);
            check(event);
            if (event.type() == end)
                return;
            take(event);
        }
    }

    void expect(yaml_event_type_t type, const char* what) {
        const Event event(parser_);
        check(event);
        if (event.type() != type)
            fail(event.line(), std::string("expected ") + what);
    }

    std::string_view scalar(const Event& event) const {
        if (event.type() != YAML_SCALAR_EVENT)
            fail(event.line(), "expected plain text");
        return event.text();
    }

    void check(const Event& event) const {
        if (event.is_valid())
            return;
        if (parser_.error == YAML_MEMORY_ERROR)
            throw std::bad_alloc();
        if (parser_.error == YAML_READER_ERROR)
            throw std::runtime_error("could not read file \"" + path_ + "\": " + parser_.problem);
        fail(static_cast<int>(parser_.problem_mark.line) + 1, parser_.problem);
    }

    [[noreturn]] void fail(int line, const std::string& problem) const {
        throw std::runtime_error("file \"" + path_ + "\", line " + std::to_string(line) + ": " + problem);
    }

    const std::string& path_;
    std::unique_ptr<std::FILE, CloseFile> file_;
    yaml_parser_t parser_;
};

} // namespace

void read_yaml_records(const std::string& path,
                       const std::function<void(std::string_view list, const YamlRecord&)>& take) {
    RecordReader(path).read(take);
}

} // namespace shortener
