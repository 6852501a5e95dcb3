#include "actors/metrics.hpp"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <array>
#include <map>

namespace ranvier {
namespace {

struct row {
  const char* name;
  const char* label; ///< nullptr: none
  const char* help;
};

constexpr std::array<row, std::size_t(metrics::counter::count_)> counters{{
    {"ranvier_transactions_sent_total", "outcome", "Answers to our PUT /send, by outcome (ok or a failure class)."},
    {"ranvier_transactions_received_total", "outcome", "Inbound PUT /send, by outcome (ok, repeated, refused)."},
    {"ranvier_pdus_sent_total", nullptr, "PDUs in transactions that were answered 200."},
    {"ranvier_edus_sent_total", nullptr, "EDUs in transactions that were answered 200."},
    {"ranvier_pdus_received_total", nullptr, "PDUs in inbound transactions."},
    {"ranvier_edus_received_total", nullptr, "EDUs in inbound transactions."},
    {"ranvier_feed_records_total", "outcome", "Feed lines of the host, by outcome (accepted, skipped, rejected)."},
    {"ranvier_actor_restarts_total", nullptr, "Actors that crashed and were made anew."},
}};

const std::map<std::string, row>& gauges() {
  static const std::map<std::string, row> all{
      {"ranvier_destinations", {"ranvier_destinations", "state", "Known destinations by state of their gate."}},
      {"ranvier_waiting", {"ranvier_waiting", "kind", "Items that wait for some destination, by kind."}},
      {"ranvier_waiting_oldest_seconds",
       {"ranvier_waiting_oldest_seconds", nullptr, "Age of the oldest waiting item."}},
      {"ranvier_destinations_in_memory", {"ranvier_destinations_in_memory", nullptr, "Destination actors alive."}},
      {"ranvier_log_head", {"ranvier_log_head", nullptr, "Newest position of the log."}},
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
