#include "actors/net/http_client.hpp"

#include "actors/net/http_loop.hpp"

namespace ranvier {

http_client_settings http_client_settings::from(const config& c) {
  http_client_settings s;
  s.max_in_flight = c.delivery.max_in_flight;
  s.max_new_connections_per_second = c.delivery.max_new_connections_per_second;
  s.idle_connection_timeout_ms = c.delivery.idle_connection_timeout_ms;
  s.connect_timeout_ms = c.delivery.connect_timeout_ms;
  s.verify_certificates = c.federation.verify_certificates;
  s.ca_file = c.federation.ca_file;
  s.tls_minimum = c.federation.tls_minimum;
  s.http2 = c.federation.http2;
  s.ip_deny = c.federation.ip_deny;
  return s;
}

http_client::http_client(http_client_settings settings)
    : loop_(std::make_shared<loop>(std::move(settings))) {
  loop_->start(loop_);
}
http_client::~http_client() { loop_->stop(); }
void http_client::submit(http_job job) { loop_->post(std::move(job)); }
void http_client::cancel(std::string asker, std::function<void()> then) {
  loop_->post_cancel(std::move(asker), std::move(then));
}
void http_client::start_no_more() { loop_->post_closing(); }
http_client::figures http_client::look() const { return loop_->look(); }

} // namespace ranvier
