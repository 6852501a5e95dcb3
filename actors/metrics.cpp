#include "actors/metrics.hpp"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <array>
#include <map>
#include <vector>

namespace ranvier {
namespace {

struct row {
  const char* name;
  const char* label; ///< nullptr: none
  const char* help;
  std::vector<const char*> values{}; ///< of the label, that are there from the start: a rate needs a first 0
};

const std::array<row, std::size_t(metrics::counter::count_)> counters{{
    {"ranvier_transactions_sent_total",
     "outcome",
     "Answers to our PUT /send, by outcome (ok or a failure class).",
     {"ok", "unreachable", "server_error", "rate_limited", "refused", "content_refused", "gone"}},
    {"ranvier_transactions_received_total",
     "outcome",
     "Inbound PUT /send, by outcome (ok, repeated, refused, limited, failed).",
     {"ok", "repeated", "refused", "limited", "failed"}},
    {"ranvier_pdus_sent_total", nullptr, "PDUs in transactions that were answered 200."},
    {"ranvier_edus_sent_total", nullptr, "EDUs in transactions that were answered 200."},
    {"ranvier_pdus_received_total", nullptr, "PDUs in inbound transactions."},
    {"ranvier_edus_received_total", nullptr, "EDUs in inbound transactions."},
    {"ranvier_feed_records_total",
     "outcome",
     "Feed lines of the host, by outcome (accepted, skipped, rejected).",
     {"accepted", "skipped", "rejected"}},
    {"ranvier_actor_restarts_total", nullptr, "Actors that crashed and were made anew."},
}};

const std::map<std::string, row>& gauges() {
  static const std::map<std::string, row> all{
      {"ranvier_destinations", {"ranvier_destinations", "state", "Known destinations by state of their gate."}},
      {"ranvier_destinations_failing",
       {"ranvier_destinations_failing", "stage", "Destinations that fail, by the stage of the last failure."}},
      {"ranvier_waiting", {"ranvier_waiting", "kind", "Items that wait for some destination, by kind."}},
      {"ranvier_waiting_oldest_seconds",
       {"ranvier_waiting_oldest_seconds", nullptr, "Age of the oldest waiting item."}},
      {"ranvier_destinations_in_memory", {"ranvier_destinations_in_memory", nullptr, "Destination actors alive."}},
      {"ranvier_log_head", {"ranvier_log_head", nullptr, "Newest position of the log."}},
      {"ranvier_ready", {"ranvier_ready", nullptr, "1 if the engine does its work, else 0; /readyz says why not."}},
      {"ranvier_stale_users", {"ranvier_stale_users", nullptr, "Remote users whose device list may be out of date."}},
      {"ranvier_partial_joins", {"ranvier_partial_joins", nullptr, "Rooms that are joined without their full state."}},
      {"ranvier_quarantined", {"ranvier_quarantined", nullptr, "Items that a server refused and that are set aside."}},
      {"ranvier_database_bytes",
       {"ranvier_database_bytes", nullptr, "Size of the database, without its write-ahead log."}},
      {"process_start_time_seconds",
       {"process_start_time_seconds", nullptr, "Start of the process, in seconds since the Unix epoch."}},
      {"process_resident_memory_bytes", {"process_resident_memory_bytes", nullptr, "Resident memory of the process."}},
  };
  return all;
}

} // namespace

struct metrics::inside {
  std::shared_ptr<prometheus::Registry> registry = std::make_shared<prometheus::Registry>();
  std::array<prometheus::Family<prometheus::Counter>*, std::size_t(counter::count_)> counters{};
  std::map<std::string, prometheus::Family<prometheus::Gauge>*> gauges;
};

metrics::metrics()
    : inside_(std::make_unique<inside>()) {
  for (std::size_t i = 0; i < counters.size(); ++i) {
    inside_->counters[i] =
        &prometheus::BuildCounter().Name(counters[i].name).Help(counters[i].help).Register(*inside_->registry);
    if (!counters[i].label) inside_->counters[i]->Add({});
    for (const auto* value : counters[i].values)
      inside_->counters[i]->Add({{counters[i].label, value}});
  }
  for (const auto& [name, r] : gauges())
    inside_->gauges[name] = &prometheus::BuildGauge().Name(r.name).Help(r.help).Register(*inside_->registry);
}

metrics::~metrics() = default;

void metrics::add(counter which, double amount, const std::string& label) {
  const auto& r = counters[std::size_t(which)];
  auto& family = *inside_->counters[std::size_t(which)];
  family.Add(r.label ? prometheus::Labels{{r.label, label}} : prometheus::Labels{}).Increment(amount);
}

void metrics::set(const std::string& gauge, const std::string& label, double value) {
  const auto& r = gauges().at(gauge);
  inside_->gauges.at(gauge)->Add(r.label ? prometheus::Labels{{r.label, label}} : prometheus::Labels{}).Set(value);
}

std::string metrics::render() const { return prometheus::TextSerializer().Serialize(inside_->registry->Collect()); }

} // namespace ranvier
