#include "bin/child_process.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <stdexcept>
#include <thread>

namespace ranvier {

child_process::child_process(const std::vector<std::string>& words, const std::string& output_file) {
  // All memory is taken before the fork: between it and exec only calls that are safe in a signal handler may stand.
  std::vector<char*> arguments;
  for (const auto& word : words)
    arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const int output = ::open(output_file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  sigset_t none;
  sigemptyset(&none);
  const auto parent = ::getpid();
  pid_ = output < 0 || nothing < 0 ? -1 : ::fork();
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(127);
    ::setpgid(0, 0); // a Ctrl-C is for us: we end it in our order
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::dup2(nothing, 0);
    ::dup2(output, 1);
    ::dup2(output, 2);
    ::execv(arguments[0], arguments.data());
    ::_exit(127);
  }
  const int problem = errno;
  if (output >= 0) ::close(output);
  if (nothing >= 0) ::close(nothing);
  if (pid_ < 0) throw std::runtime_error(words[0] + " can't be started: " + std::strerror(problem));
}

child_process::~child_process() { end(5'000); }

bool child_process::running() {
  if (pid_ < 0) return false;
  int status = 0;
  if (::waitpid(pid_, &status, WNOHANG) == 0) return true;
  pid_ = -1;
  return false;
}

void child_process::end(std::int64_t within_ms) {
  using namespace std::chrono;
  if (!running()) return;
  ::kill(pid_, SIGTERM);
  const auto until = steady_clock::now() + milliseconds(within_ms);
  while (running() && steady_clock::now() < until)
    std::this_thread::sleep_for(10ms);
  if (pid_ < 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

} // namespace ranvier
