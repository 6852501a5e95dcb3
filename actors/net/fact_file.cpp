#include "actors/net/fact_file.hpp"

#include "actors/log.hpp"

#include <cstdio>
#include <fstream>
#include <sstream>

namespace ranvier {

fact_file::fact_file(std::string path)
    : path_(std::move(path))
    , thread_([this] { run(); }) {}

fact_file::~fact_file() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

std::string fact_file::load() const {
  std::ifstream in(path_, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return in ? text.str() : std::string();
}

void fact_file::save(std::string text) {
  {
    std::lock_guard lock(mutex_);
    waiting_ = std::move(text);
  }
  changed_.notify_one();
}

void fact_file::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ending_ || waiting_; });
    if (!waiting_) return;
    auto text = std::move(*waiting_);
    waiting_.reset();
    lock.unlock();
    write(text);
    lock.lock();
  }
}

/// Under another name first, so that a crash leaves the old text.
void fact_file::write(const std::string& text) {
  auto next = path_ + ".next";
  std::ofstream out(next, std::ios::binary | std::ios::trunc);
  out << text;
  out.close();
  bool good = out && std::rename(next.c_str(), path_.c_str()) == 0;
  if (!good && !failed_)
    log_warning("facts_not_kept", {{"file", path_}, {"means", "it is looked up anew after a start"}});
  failed_ = !good;
}

} // namespace ranvier
