#include "stream/loss_words.h"

#include <gtest/gtest.h>

#include "stream/text.h"
#include "wire/fault.h"
#include "wire/records.h"

namespace oomcast {
namespace {

// Beside those of the kernel programs: of the tracer, and of blame.
constexpr std::string_view kOtherReasons[] = {"samples_spared",
                                              "model_full",
                                              "not_stored",
                                              "not_in_journal",
                                              "output",
                                              "reader_given_up",
                                              "reader_refused",
                                              "growth_look_given_up",
                                              "growth_look_no_room",
                                              "growth_look_not_allowed",
                                              "too_many_actions",
                                              "oom_kill_unseen",
                                              "oom_kill_no_room",
                                              "oom_victim_late",
                                              "kernel_log_overwritten",
                                              "kernel_log_unreadable",
                                              "program_interrupted_itself",
                                              "python_table_full",
                                              "undecodable_record",
                                              "gpu_ring_full",
                                              "gpu_code_no_room",
                                              "gpu_page_events",
                                              "gpu_not_followed",
                                              "scope_table_full",
                                              "reader_full",
                                              "undecodable"};

TEST(Losses, have_words_for_every_reason_and_never_show_its_name) {
  std::vector<std::string_view> all(std::begin(kOtherReasons), std::end(kOtherReasons));
  for (std::string_view reason : wire::lost_reasons()) all.push_back(reason);
  for (std::string_view reason : wire::fault_lost_reasons()) all.push_back(reason);
  for (std::string_view reason : all) {
    EXPECT_TRUE(is_known_loss(reason)) << reason;
    std::string words = describe_loss(reason, 2);
    EXPECT_EQ(words.find('_'), std::string::npos) << words;
    EXPECT_NE(words.find("; "), std::string::npos) << "whether it matters: " << words;
  }
}

TEST(Losses, say_what_is_missing_why_and_whether_it_matters) {
  EXPECT_EQ(describe_loss("samples_spared", 3),
            "3 samples skipped to spare a busy machine; kills are not affected");
  EXPECT_EQ(describe_loss("reader_given_up", 1),
            "1 process not read in time (private memory, Python); kills are not affected");
  EXPECT_EQ(describe_loss("events_ring_full", 1),
            "1 record of a kill dropped: the buffer was full; details of a kill may be missing");
}

TEST(Losses, of_a_reason_that_is_not_known_show_its_name_safely) {
  EXPECT_EQ(describe_loss("of an older store\x1b[31m", 5), "5 records (of an older store\\x1b[31m)");
}

TEST(Losses, in_one_line_say_once_that_kills_are_not_affected) {
  EXPECT_EQ(summarize_losses({{"reader_given_up", 1}, {"samples_spared", 3}, {"output", 0}}),
            "1 process not read in time, 3 samples skipped; kills are not affected");
  EXPECT_EQ(summarize_losses({{"events_ring_full", 1}, {"samples_spared", 3}}),
            "1 record of a kill dropped, 3 samples skipped");
  EXPECT_EQ(summarize_losses({{"output", 0}}), "");
}

TEST(Losses, are_in_words_in_a_line_of_their_own_and_at_the_end) {
  ClockMap clock;
  EXPECT_NE(to_text(LostFact{{}, "samples_spared", 3}, clock, {}).find("3 samples skipped to spare"),
            std::string::npos);
  EXPECT_NE(to_text(EndFact{{}, 5, {{"samples_spared", 3}}}, clock, {})
                .find("5 records, lost: 3 samples skipped to spare a busy machine; kills are not affected"),
            std::string::npos);
}

}  // namespace
}  // namespace oomcast
