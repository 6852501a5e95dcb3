#include "actors/net/upstream.hpp"

#include <doctest/doctest.h>

using namespace ranvier;

TEST_CASE("upstream: nothing that we serve is handed on, however it is written") {
  router ours;
  ours.add("PUT", "/_matrix/federation/v1/send/{txnId}", "send");
  ours.add("GET", "/_matrix/federation/v1/version", "version");
  ours.add("GET", "/_matrix/federation/v1/make_join/{room_id}/{subject}", "resident");
  for (const auto* target : {"/_matrix/federation/v1/event/$x", "/_matrix/federation/v1/state_ids/!r:a?event_id=$x",
                             "/_matrix/federation/v2/invite/!r:a/$x", "/_matrix/federation/v1/event/%24a%2Fb",
                             "/_matrix/federation/v1/sent/x", "/_matrix/federation/v1/query/profile?user_id=../send/x"})
    CHECK_MESSAGE(not_for_upstream(ours, target).empty(), target);
  for (const auto* target :
       {"/_matrix/federation/v1/send/1", "/_matrix/federation/v1/%73end/1", "/_matrix/federation/v1//send/1",
        "/_matrix/federation/v1/send/1/", "/_matrix/federation/v1/send%2F1", "/_matrix/federation/v1/x/../send/1",
        "/_matrix/federation/v1/%2e%2e/v1/send/1", "/_matrix/federation/../client/v3/login",
        "/_matrix/federation/./v1/version", "/_matrix/federation/v1/version/", "/_matrix/client/v3/login", "/",
        "/_matrix/federation/v1/%6dake_join/!r:a/@u:b", "/_matrix/federation/v1/%zz",
        "/_matrix/federation/v1/event/a%2F..%2Fsend", "/_matrix/federation/v1/version?x=1"})
    CHECK_MESSAGE(!not_for_upstream(ours, target).empty(), target);
}
