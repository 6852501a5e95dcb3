#include "bin/demo.hpp"

#include "bin/cli.hpp"
#include "bin/demo_play.hpp"

#include <iostream>

namespace ranvier {

namespace {

int play(demo_play& it) {
  auto& stage = it.stage();
  try {
    it.introduce();
    it.delivery();
    it.outage();
    it.refusal();
    it.catch_up();
    it.stale_list();
    it.partial_join();
    it.the_dead_one();
    it.reckoning();
    stage.end_engine();
    stage.say("demo", "every server has what it is owed; the engine has ended, its folder is removed", tone::good);
    return exit_ok;
  } catch (const demo_interrupted&) {
    std::cerr << "demo: interrupted; the engine is ended, its folder is removed\n";
  } catch (const std::runtime_error& problem) {
    std::cerr << "demo: " << problem.what() << "\nThe engine's last words:\n" << stage.log_tail();
  }
  stage.end_engine();
  return exit_no;
}

} // namespace

int run_demo() {
  start_crypto();
  try {
    demo_play it;
    return play(it);
  } catch (const std::runtime_error& problem) {
    throw cli_failure(exit_fault, std::string("the demo can't begin: ") + problem.what());
  }
}

} // namespace ranvier
