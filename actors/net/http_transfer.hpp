#pragma once
#include "actors/ip_ranges.hpp"
#include "actors/net/http_client.hpp"

#include <curl/curl.h>

#include <cstdint>
#include <string>

namespace ranvier {

class transfer;

/// What a transfer tells its loop from within curl's callbacks.
class transfer_watcher {
public:
  virtual curl_socket_t open_socket(transfer& t, const curl_sockaddr& address) = 0;
  /// `ends`: both addresses of its connection, so that a pooled one can be told from others.
  virtual void connected(transfer& t, const std::string& ends) = 0;

protected:
  ~transfer_watcher() = default;
};

struct transfer_rules {
  const http_client_settings* settings = nullptr;
  std::string ca_path; ///< one file with all trust anchors
  ip_ranges deny;
  curl_closesocket_callback close_socket = nullptr;
  void* close_socket_data = nullptr;
};

/// One job from its admission to its answer: what curl is told, what curl says. Lives on the client's thread only.
class transfer {
public:
  transfer(std::uint64_t ticket, http_job job, const transfer_rules& rules, transfer_watcher& watcher);
  ~transfer();
  transfer(const transfer&) = delete;
  transfer& operator=(const transfer&) = delete;

  const http_job job;
  const std::uint64_t ticket;
  std::size_t shard = 0;
  CURL* easy = nullptr;         ///< while it is running
  std::int64_t admitted = 0;    ///< ms, monotonic
  std::uint64_t socket = 0;     ///< the loop's number of the connection that the request goes over; 0: none yet
  std::int64_t going_since = 0; ///< ms, monotonic: when it began to
  bool held = false;            ///< it waits for another one's dial: curl doesn't have it

  /// Nothing if the job can be sent, else why not: a sentence.
  std::string fault() const;
  /// Sets `easy` up for one try. `preferred` is the address that worked last, or empty; `left_ms` what remains.
  void prepare(const std::string& preferred, std::int64_t left_ms);
  /// Takes the lists and results of a try back; the handle is free for others then.
  CURL* release();
  /// What the ended try came to. True: try again (another address, or a pooled connection had died). `hung_up`: its
  /// connection is over; not so if only its HTTP/2 stream was reset.
  bool try_again(CURLcode code, bool hung_up);
  /// After a cut: the next try begins with another address if this one was never connected.
  void cut();
  http_reply reply(CURLcode code, std::int64_t now); ///< once: the body is moved out
  http_reply cancelled(std::int64_t now) const;
  /// A connection was dialled for it (host and port).
  void dialled(const std::string& address) { peer_address_ = address; }
  const std::string& address() const { return dialled_; }
  bool request_sent() const { return request_sent_; } ///< in any try, cut ones too
  bool complete(CURLcode code) const { return code == CURLE_OK; }
  bool over_http2() const { return over_http2_; } ///< the answer that is coming, or came

private:
  static std::size_t on_body(char* data, std::size_t size, std::size_t n, void* self);
  static std::size_t on_header(char* data, std::size_t size, std::size_t n, void* self);
  static CURLcode on_tls(CURL* handle, void* context, void* self);
  static int on_connected(void* self, char* peer_ip, char* local_ip, int peer_port, int local_port);
  bool may_repeat(CURLcode code, bool hung_up);
  static curl_socket_t on_socket(void* self, curlsocktype purpose, curl_sockaddr* address);
  void set_request();
  void set_security();
  void take_header(std::string_view line);
  failure_stage stage(CURLcode code) const;
  std::string problem(CURLcode code, std::int64_t now) const;
  std::string what_for() const;

  const transfer_rules& rules_;
  transfer_watcher& watcher_;
  curl_slist* headers_ = nullptr;
  curl_slist* connect_to_ = nullptr;
  char error_[CURL_ERROR_SIZE] = {};
  std::string dialled_, peer_address_, body_;
  http_reply heard_;
  std::size_t next_address_ = 0, tries_ = 0, header_bytes_ = 0;
  long left_ms_ = 0;
  bool connected_ = false;    ///< in this try: the request could be sent
  bool request_sent_ = false; ///< in any try
  bool new_socket_ = false;   ///< in this try
  bool fresh_ = false;        ///< this try mustn't use a pooled connection
  bool plain_ = false;        ///< HTTP/1.1 only: the server's HTTP/2 is broken
  bool over_http2_ = false;   ///< in this try
  bool fresh_tried_ = false;
  bool too_large_ = false, denied_ = false, headers_too_large_ = false;
  bool tls_stage_ = false; ///< in this try: TCP stands
};

} // namespace ranvier
