#include "app/visit.h"

#include "app/service.h"

namespace shortener {

Visit::Visit(Service& home, const Request& request, std::string_view code, Clock::time_point begun)
    : home(home), begun(begun), request_(request) {
    bytes_.reserve(request.host.size() + 1 + code.size() + request.accept.size() + request.user_agent.size() +
                   request.referer.size() + request.forwarded_for.size() + request.peer.size());
    request_.host = add(request.host);
    add(" ");
    add(code);
    flight_ = bytes_;
    for (std::string_view Request::*text :
         {&Request::accept, &Request::user_agent, &Request::referer, &Request::forwarded_for, &Request::peer})
        request_.*text = add(request.*text);
    request_.target = {}; // the code is what it comes to
}

std::string_view Visit::add(std::string_view text) {
    const std::size_t begin = bytes_.size();
    bytes_.append(text);
    return std::string_view(bytes_).substr(begin);
}

void Visit::start(Done done_) {
    done = std::move(done_);
    home.start(shared_from_this());
}
void Visit::keep(const CodeAnswer& answer) {
    home.keep(*this, answer);
}
void Visit::tell(const CodeAnswer* answer) {
    home.landed(*this, answer);
}
void Visit::keep(const TextsAnswer& answer) {
    home.keep(*this, answer);
}
void Visit::tell(const TextsAnswer* answer) {
    home.finish(*this, answer ? &answer->texts : nullptr);
}

} // namespace shortener
