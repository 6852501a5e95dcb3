#include "messages/x_matrix.hpp"

#include "spec_key.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace ranvier;

TEST_CASE("X1-X7: V15, a request without a body") {
  const std::string uri = "/_matrix/federation/v1/user/devices/%40alice%3Aremote.example";
  CHECK(x_matrix_bytes("GET", uri, "domain", "remote.example", "") ==
        R"({"destination":"remote.example","method":"GET","origin":"domain","uri":")" + uri + "\"}");
  CHECK(x_matrix_header("GET", uri, "domain", "remote.example", "", spec_key()) ==
        R"(X-Matrix origin="domain",destination="remote.example",key="ed25519:1",sig="9wvTC3zTan68GPIWEkOOS7OUPXzfd/)"
        R"(o+NViLu94SPOW3tRNHC+Y/qcz+67BPZFQn8rmNZdFKrkDgVZ9D91DQAA")");
}

TEST_CASE("X1: V16, a request with a body") {
  const auto header = x_matrix_header("PUT", "/_matrix/federation/v1/send/txn1", "domain", "remote.example:8448",
                                      R"({"edus":[],"origin":"domain","origin_server_ts":1000000,"pdus":[]})",
                                      spec_key());
  CHECK(header == R"(X-Matrix origin="domain",destination="remote.example:8448",key="ed25519:1",)"
                  R"(sig="av2QwdRUJQoKbZBDAjuq8it2jQR2ks2XXh2tMEzO4JTX2PQD2AtD8YtXZngPUTyaVdEuwN0pzPZQM+6GwIgNAQ")");
}

TEST_CASE("A1-A4: headers that are read") {
  struct row {
    std::string header, destination;
  };
  const row rows[] = {
      {R"(X-Matrix origin="o:1",destination="d",key="ed25519:k",sig="s/+")", "d"},
      {R"(X-Matrix origin="o:1",key="ed25519:k",sig="s/+")", ""},
      {R"(X-Matrix    sig="s/+" , KEY="ed25519:k",)" "\t" R"(Origin = "o:1" ,destination="d" )", "d"},
      {R"(x-matrix origin=o:1,destination=d:8448,key=ed25519:k,sig=s/+)", "d:8448"},
      {R"(X-Matrix origin="\o\:1",destination="\"\\",key="ed25519:k",sig="s/+")", "\"\\"},
      {R"(X-Matrix origin="o:1",key="ed25519:k",signature="s/+")", ""},
      {R"(X-Matrix ,, origin="o:1",,key="ed25519:k",sig="s/+",)", ""},
      {R"(X-Matrix other="x, origin=y",origin="o:1",key="ed25519:k",sig="s/+",more=,other=z)", ""},
      {R"(X-Matrix origin="o:1",destination="",key="ed25519:k",sig="s/+")", ""},
  };
  for (const auto& one : rows) {
    CAPTURE(one.header);
    const auto read = parse_x_matrix(one.header);
    CHECK(read.problem == "");
    CHECK(read.origin == "o:1");
    CHECK(read.destination == one.destination);
    CHECK(read.key_id == "ed25519:k");
    CHECK(read.signature == "s/+");
  }
}

TEST_CASE("A4: unquoted padding of a signature is part of it") {
  CHECK(parse_x_matrix("X-Matrix origin=o,key=ed25519:k,sig=AA==").signature == "AA==");
}

TEST_CASE("A7: malformed headers say what is wrong") {
  for (const std::string header :
       {"", "X-Matrix", "Bearer abc", "X-Matrixorigin=a", R"(X-Matrix origin="o",key="ed25519:k")",
        R"(X-Matrix origin="o",sig="s")", R"(X-Matrix key="ed25519:k",sig="s")",
        R"(X-Matrix origin="o,key="ed25519:k",sig="s")", R"(X-Matrix origin="o",key="ed25519:k",sig="s)",
        R"(X-Matrix origin="o",key="ed25519:k",sig="s\)", R"(X-Matrix origin="o" key="ed25519:k" sig="s")",
        R"(X-Matrix origin="o",key="ed25519:k",sig="s",origin="p")", R"(X-Matrix origin="o",key="rsa:k",sig="s")",
        R"(X-Matrix origin="not a name",key="ed25519:k",sig="s")", R"(X-Matrix origin="",key="ed25519:k",sig="s")",
        R"(X-Matrix origin="o:x",key="ed25519:k",sig="s")", R"(X-Matrix origin,key="ed25519:k",sig="s")",
        R"(X-Matrix ="o",key="ed25519:k",sig="s")", R"(X-Matrix origin="o",key="ed25519:k",sig="s"x)",
        R"(X-Matrix origin="o",key="ed25519:k",sig="s",signature="t")"}) {
    CAPTURE(header);
    const auto read = parse_x_matrix(header);
    CHECK(read.problem.size() > 20);
    CHECK(read.origin == "");
    CHECK(read.signature == "");
  }
}
