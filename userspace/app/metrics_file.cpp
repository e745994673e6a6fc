#include "app/metrics_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include "base/escape.h"
#include "base/unique_fd.h"
#include "collect/safe_path.h"

namespace oomcast {
namespace {

constexpr mode_t kMode = 0644;  // node_exporter runs as its own user

Result<SafePath> place_of(const std::string& path) {
  auto place = resolve(path, {.writes = true, .last_link = false});
  if (!place) return place.error();
  if (place->found && S_ISLNK(place->found->st_mode))
    return Error::failed("it is a link: name what it leads to");
  if (place->is_directory()) return Error::failed("it is a directory");
  if (place->found && !place->is_regular()) return Error::failed("it is no regular file");
  return place;
}

Status write_new(const SafePath& place, const std::string& name, const std::string& text) {
  constexpr int kNew = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  UniqueFd file(openat(place.directory.get(), name.c_str(), kNew, kMode));
  // A service's umask may remove read permission for others.
  if (!file || fchmod(file.get(), kMode) != 0) return Error::failed(std::strerror(errno));
  for (std::size_t done = 0; done < text.size();) {
    ssize_t n = ::write(file.get(), text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return Error::failed(std::strerror(errno));
    done += static_cast<std::size_t>(n);
  }
  return Ok{};
}

void remove(const std::string& path) {
  if (auto place = place_of(path)) unlinkat(place->directory.get(), place->name.c_str(), 0);
}

std::string told(const std::string& path, const Error& error) {
  return fmt::format("writing the metrics to {}: {}", escape_for_terminal(path), error.message);
}

}  // namespace

Status MetricsFile::replace_with(const std::string& path, const std::string& text) {
  // Resolved each time: the directory may have been recreated, or mounted over.
  auto place = place_of(path);
  if (!place) return place.error();
  int directory = place->directory.get();
  // One name, and not a .prom: what a kill of oomcast leaves there is neither read nor does it pile up.
  const std::string name = "." + place->name + ".new";
  unlinkat(directory, name.c_str(), 0);
  Status written = write_new(*place, name, text);
  if (written && renameat(directory, name.c_str(), directory, place->name.c_str()) != 0)
    written = Error::failed(std::strerror(errno));
  if (!written) unlinkat(directory, name.c_str(), 0);
  return written;
}

MetricsFile::MetricsFile(std::string path, Replace replace) {
  shared_->path = std::move(path);
  shared_->replace = std::move(replace);
}

MetricsFile::~MetricsFile() {
  if (!thread_.joinable()) return;
  {
    std::unique_lock lock(shared_->mutex);
    shared_->ending = true;
    shared_->changed.notify_all();
    shared_->changed.wait_for(lock, kPatience, [&] { return shared_->ended; });
    if (!shared_->ended) {
      thread_.detach();
      return;
    }
  }
  thread_.join();
}

bool MetricsFile::write(std::string text) {
  if (!thread_.joinable()) {
    try {
      thread_ = std::thread([shared = shared_] { work(shared); });
    } catch (const std::system_error&) {  // no room for one more; the next time, perhaps
      ++skipped_;
      return false;
    }
  }
  std::lock_guard lock(shared_->mutex);
  if (shared_->busy) {
    ++skipped_;
    return false;
  }
  shared_->busy = true;
  shared_->text = std::move(text);
  shared_->changed.notify_all();
  return true;
}

std::optional<std::string> MetricsFile::take_error() {
  std::lock_guard lock(shared_->mutex);
  return std::exchange(shared_->error, std::nullopt);
}

bool MetricsFile::flush(Nanos patience) {
  std::unique_lock lock(shared_->mutex);
  return shared_->changed.wait_for(lock, patience, [&] { return !shared_->busy; });
}

void MetricsFile::work(const std::shared_ptr<Shared>& shared) {
  bool wrote = false;
  std::unique_lock lock(shared->mutex);
  for (;;) {
    shared->changed.wait(lock, [&] { return shared->ending || shared->text; });
    if (!shared->text) break;
    const std::string text = *std::exchange(shared->text, std::nullopt);
    lock.unlock();
    Status done = shared->replace(shared->path, text);
    lock.lock();
    wrote = wrote || done.ok();
    if (!done && !shared->failing) shared->error = told(shared->path, done.error());
    shared->failing = !done.ok();
    shared->busy = false;
    shared->changed.notify_all();
  }
  lock.unlock();
  if (wrote) remove(shared->path);
  lock.lock();
  shared->ended = true;
  shared->changed.notify_all();
}

}  // namespace oomcast
