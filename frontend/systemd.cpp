#include "systemd.h"

#include <cstddef>
#include <cstdlib>
#include <cstring>

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace shortener {

void notify_systemd(const char* state) noexcept {
    const char* path = std::getenv("NOTIFY_SOCKET");
    sockaddr_un address{};
    if (!path || (*path != '/' && *path != '@') || std::strlen(path) >= sizeof address.sun_path)
        return;
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, path);
    if (*path == '@') // the abstract namespace
        address.sun_path[0] = '\0';
    const int descriptor = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (descriptor < 0)
        return;
    // There is nobody else to tell that it failed.
    [[maybe_unused]] const ssize_t sent = sendto(
        descriptor, state, std::strlen(state), MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&address),
        static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + std::strlen(path)));
    close(descriptor);
}

} // namespace shortener
