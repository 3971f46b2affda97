// `kapitsa serve`: loads a model, serves it, and stops in good order when it is told to.
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "base/log.h"
#include "cli/command.h"
#include "cli/load.h"
#include "cli/output.h"
#include "cli/speaker.h"
#include "server/server.h"

namespace kapitsa {
namespace {

struct Options {
    LoadOptions load;
    std::string host = "127.0.0.1", api_key, origins, hosts;
    std::uint64_t port = 8000;
    bool verbose = false;
};

/// SIGINT and SIGTERM, taken by a thread of their own, so that nothing of ours runs inside a signal handler.
/// The first one asks for an orderly stop (or, while a model still loads, simply leaves); a second one leaves
/// at once.
class StopSignals {
public:
    /// Before any other thread is made: they inherit that the signals are blocked.
    static void watch() {
        sigset_t signals;
        sigemptyset(&signals);
        sigaddset(&signals, SIGINT);
        sigaddset(&signals, SIGTERM);
        sigaddset(&signals, SIGHUP);  // the terminal is gone
        pthread_sigmask(SIG_BLOCK, &signals, nullptr);
        std::thread([signals] {
            int which = 0;
            if (sigwait(&signals, &which) != 0) return;
            if (stage_.exchange(stopping) == loading) ::_exit(exit_code(Fault::cancelled));
            stage_.notify_all();
            if (sigwait(&signals, &which) == 0) ::_exit(exit_code(Fault::cancelled));
        }).detach();
    }

    /// From here on a signal is answered by returning.
    static void wait() {
        int expected = loading;
        stage_.compare_exchange_strong(expected, serving);
        stage_.wait(serving);
    }

private:
    enum Stage : int { loading, serving, stopping };
    static inline std::atomic<int> stage_{loading};
};

std::vector<std::string> split(const std::string& list) {
    std::vector<std::string> parts;
    for (std::size_t begin = 0; begin < list.size();) {
        const std::size_t end = std::min(list.find(',', begin), list.size());
        if (end > begin) parts.push_back(list.substr(begin, end - begin));
        begin = end + 1;
    }
    return parts;
}

Status run(const Options& options) {
    set_log_level(options.verbose ? LogLevel::info : LogLevel::warning);
    StopSignals::watch();
    std::signal(SIGPIPE, SIG_IGN);  // a client that hangs up is an error of its own connection
    const auto model = TRY(load_model(options.load));

    ServerOptions wanted;
    wanted.host = options.host;
    wanted.port = static_cast<std::uint16_t>(options.port);
    wanted.api_key = options.api_key;
    if (const char* key = std::getenv("KAPITSA_API_KEY"); key && options.api_key.empty())
        wanted.api_key = key;
    wanted.allowed_origins = split(options.origins);
    for (const std::string& origin : wanted.allowed_origins)
        if (origin.find("://") == origin.npos)
            return fail(Fault::invalid_input, "--allow-origin " + origin +
                                                  " is no origin: they look like https://example.org:8443");
    wanted.allowed_hosts = split(options.hosts);
    const auto server = TRY(Server::start(*model.service, wanted));

    const auto& info = model.service->info();
    std::printf("kapitsa serves %s on %s (context %u, %u at once); Ctrl-C stops it\n",
                model.service->name().c_str(), server->url().c_str(), info.context, info.sequences);
    if (!model.told_of_tower.empty()) std::printf("%s\n", printable(model.told_of_tower).c_str());
    TRY(flush_output());
    StopSignals::wait();
    server->stop();
    return Done{};
}

Action setup(Arguments& arguments) {
    const auto options = std::make_shared<Options>();
    options->load.parallel = 8;
    declare_load_options(arguments, options->load);
    declare_tower_option(arguments, options->load);
    arguments.number("--parallel", options->load.parallel, 1, 256, "Requests that are answered at once");
    arguments.text("--host", options->host, "ADDRESS",
                   "Where to listen; beyond this machine only with a key, such as $KAPITSA_API_KEY");
    arguments.number("--port", options->port, 0, 65535, "The port to listen on, 0 for a free one");
    arguments.text(
        "--api-key", options->api_key, "KEY",
        "Asked of every request; other users of this machine can see it here, and not in the variable",
        "$KAPITSA_API_KEY, else none");
    arguments.text("--allow-origin", options->origins, "ORIGINS",
                   "Web pages that may ask, beyond those of this machine, separated by commas", "none");
    arguments.text("--allow-host", options->hosts, "NAMES",
                   "Names this machine is called by in requests, separated by commas");
    arguments.flag("-v,--verbose", options->verbose, "Logs what happens, on standard error");
    return [options] { return run(*options); };
}

}  // namespace

extern const Command serve{
    "serve", "Serves a model to programs that speak the OpenAI API",
    "Examples:\n"
    "  kapitsa serve                         the built-in model on http://127.0.0.1:8000\n"
    "  kapitsa serve -m ~/models/some-model --ctx 8192 --parallel 4\n"
    "  kapitsa serve -m some-model-Q8_0.gguf --mmproj mmproj-some-model-BF16.gguf\n"
    "  KAPITSA_API_KEY=secret kapitsa serve --host 0.0.0.0\n"
    "\n"
    "Then, from another terminal:\n"
    "  curl http://127.0.0.1:8000/v1/chat/completions -H 'Content-Type: application/json' \\\n"
    "       -d '{\"messages\": [{\"role\": \"user\", \"content\": \"Good morning!\"}]}'\n",
    setup};

}  // namespace kapitsa
