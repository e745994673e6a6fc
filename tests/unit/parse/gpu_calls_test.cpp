#include "parse/gpu_calls.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <set>

namespace oomcast {
namespace {

using What = GpuOp::What;
using Call = wire::GpuCall::Call;
using Device = wire::GpuCall::Device;

// The releases where a layout changed, and one before and after each.
const std::vector<std::string> kDrivers = {"515.43.04", "525.60.11", "535.43.02", "545.23.06", "550.40.07",
                                           "550.54.14", "580.65.06", "590.44.01", "610.43.02"};

GpuDriverVersion driver(const std::string& text) {
  return *parse_gpu_driver_version(text);
}

struct Image {
  explicit Image(std::size_t size) : bytes(size) {}
  template <typename T>
  Image& put(std::size_t offset, T value) {
    std::memcpy(bytes.data() + offset, &value, sizeof(value));
    return *this;
  }
  Image& uuid(std::size_t offset, std::uint8_t n) {
    std::memset(bytes.data() + offset, n, 16);
    return *this;
  }
  std::vector<std::byte> bytes;
};

GpuUuid uuid(std::uint8_t n) {
  GpuUuid out;
  out.bytes.fill(n);
  return out;
}

wire::GpuCall ioctl_on(Device device, std::uint32_t command, const Image& head) {
  wire::GpuCall call;
  call.call = Call::ioctl;
  call.device = device;
  call.command = command;
  call.head = head.bytes;
  return call;
}

wire::GpuCall uvm(std::uint32_t command, const Image& head, const Image& tail = Image(0)) {
  auto call = ioctl_on(Device::uvm, command, head);
  call.tail = tail.bytes;
  return call;
}

wire::GpuCall rm(std::uint32_t command, const Image& head, const Image& params = Image(0)) {
  auto call = ioctl_on(Device::control, command, head);
  call.params = params.bytes;
  return call;
}

Image range(std::size_t size, std::uint64_t base, std::uint64_t length) {
  return Image(size).put(0, base).put(8, length);
}

const GpuUvmLayout& layout_of(const std::vector<GpuUvmLayout>& all, std::uint32_t command) {
  for (const GpuUvmLayout& l : all)
    if (l.command == command) return l;
  ADD_FAILURE() << "no layout for " << command;
  return all.front();
}

TEST(GpuVersion, is_the_first_release_number_in_a_text) {
  EXPECT_EQ(parse_gpu_driver_version("535.183.01\n"), (GpuDriverVersion{535, 183, 1}));
  EXPECT_EQ(parse_gpu_driver_version("580.65"), (GpuDriverVersion{580, 65, 0}));
  EXPECT_EQ(parse_gpu_driver_version("NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.14  Thu Feb 22"),
            (GpuDriverVersion{550, 54, 14}));
  for (const char* none : {"", "x", "64", "12.4", "535", "535."})
    EXPECT_FALSE(parse_gpu_driver_version(none)) << none;
}

TEST(GpuUuid, is_written_and_read_as_nvidia_smi_writes_it) {
  GpuUuid some;
  for (std::uint8_t i = 0; i < 16; ++i) some.bytes[i] = static_cast<std::uint8_t>(0x10 + i);
  EXPECT_EQ(to_string(some), "GPU-10111213-1415-1617-1819-1a1b1c1d1e1f");
  EXPECT_EQ(parse_gpu_uuid(to_string(some)), some);
  EXPECT_EQ(parse_gpu_uuid("UVM-" + to_string(some)), some);
  EXPECT_FALSE(parse_gpu_uuid("GPU-1011"));
}

TEST(GpuUvmCall, a_map_of_an_allocation_has_its_handles_and_status_behind_the_attributes_of_all_cards) {
  for (const std::string& name : kDrivers) {
    auto layout = layout_of(uvm_layouts(driver(name)), 33);
    EXPECT_EQ(layout.tail_at, driver(name) < driver("550.40.53") ? 1176 : 9240) << name;
    EXPECT_EQ(layout.head_bytes, 40) << name;
    Image head = range(40, 0x7f0000000000, 2 << 20).uuid(24, 5);
    Image tail = Image(24).put(12, 0xc1d00024u).put(16, 0x5c000042u).put(20, 0u);
    auto op = decode_gpu_call(uvm(33, head, tail), driver(name));
    ASSERT_TRUE(op) << name;
    EXPECT_EQ(op->what, What::map);
    EXPECT_EQ(op->object, (GpuObject{0xc1d00024, 0x5c000042}));
    EXPECT_EQ(op->device, uuid(5));
    EXPECT_EQ(op->bytes, MiB(2));
    EXPECT_EQ(op->address, 0x7f0000000000u);
    EXPECT_EQ(op->status, 0u);
  }
}

TEST(GpuUvmCall, a_free_lost_its_length_in_590_and_its_status_moved) {
  for (const std::string& name : kDrivers) {
    bool has_length = driver(name) < driver("590.44.01");
    EXPECT_EQ(layout_of(uvm_layouts(driver(name)), 34).head_bytes, has_length ? 24 : 16) << name;
    Image head = has_length ? range(24, 0x1000, 4096).put(16, 0x1Eu)
                            : Image(16).put(0, std::uint64_t{0x1000}).put(8, 0x1Eu);
    auto op = decode_gpu_call(uvm(34, head), driver(name));
    ASSERT_TRUE(op) << name;
    EXPECT_EQ(op->what, What::free_range);
    EXPECT_EQ(op->address, 0x1000u);
    EXPECT_EQ(op->bytes, has_length ? std::optional(Bytes{4096}) : std::nullopt);
    EXPECT_EQ(op->status, 0x1Eu);
    EXPECT_TRUE(failed(op->status));
  }
}

TEST(GpuUvmCall, the_status_of_a_preferred_location_moved_in_550) {
  for (const std::string& name : kDrivers) {
    std::size_t where = driver(name) < driver("550.40.07") ? 32 : 36;
    auto op = decode_gpu_call(uvm(42, range(40, 0x1000, 4096).uuid(16, 1).put(where, 0x51u)), driver(name));
    ASSERT_TRUE(op) << name;
    EXPECT_EQ(op->what, What::advise);
    EXPECT_EQ(op->status, 0x51u) << name;
  }
}

TEST(GpuUvmCall, of_an_unknown_driver_base_and_length_are_told_and_the_status_is_unknown) {
  EXPECT_EQ(layout_of(uvm_layouts(std::nullopt), 33).tail_bytes, 0);
  auto map = decode_gpu_call(uvm(33, range(40, 0x1000, 4096).uuid(24, 2)), std::nullopt);
  ASSERT_TRUE(map);
  EXPECT_EQ(map->bytes, Bytes{4096});
  EXPECT_FALSE(map->status);
  auto free = decode_gpu_call(uvm(34, range(16, 0x1000, 0)), std::nullopt);
  ASSERT_TRUE(free);
  EXPECT_EQ(free->address, 0x1000u);
  EXPECT_FALSE(free->bytes);
  EXPECT_FALSE(free->status);
}

TEST(GpuUvmCall, every_call_whose_layout_never_changed_reads_the_same_for_every_driver) {
  struct Row {
    std::uint32_t command;
    What what;
    std::size_t size, status;
    std::optional<std::size_t> uuid;
  };
  const std::vector<Row> rows = {
      {43, What::advise, 24, 16, {}},  {44, What::advise, 24, 16, {}},      {45, What::advise, 24, 16, {}},
      {46, What::advise, 40, 32, 16},  {47, What::advise, 40, 32, 16},      {51, What::migrate, 80, 72, 16},
      {66, What::unmap, 40, 32, 16},   {72, What::check_range, 24, 16, {}}, {73, What::reserve, 24, 16, {}},
      {74, What::reserve, 40, 32, 16}, {80, What::advise, 32, 24, {}},
  };
  for (const std::string& name : kDrivers)
    for (const Row& row : rows) {
      EXPECT_EQ(layout_of(uvm_layouts(driver(name)), row.command).head_bytes, row.size) << row.command;
      Image head = range(row.size, 0x2000, 8192).put(row.status, 0x10006u);
      if (row.uuid) head.uuid(*row.uuid, 9);
      auto op = decode_gpu_call(uvm(row.command, head), driver(name));
      ASSERT_TRUE(op) << row.command;
      EXPECT_EQ(op->what, row.what) << row.command;
      EXPECT_EQ(op->bytes, Bytes{8192}) << row.command;
      EXPECT_EQ(op->status, 0x10006u) << row.command;
      EXPECT_FALSE(failed(op->status)) << "a warning";
      EXPECT_EQ(op->device, row.uuid ? std::optional(uuid(9)) : std::nullopt) << row.command;
    }
}

TEST(GpuUvmCall, contexts_begin_and_end_and_a_prefetch_says_whether_it_waits) {
  auto version = driver("535.183.01");
  auto begin = decode_gpu_call(uvm(25, Image(32).uuid(0, 4).put(20, 0xc1d00001u).put(28, 0u)), version);
  ASSERT_TRUE(begin);
  EXPECT_EQ(begin->what, What::context);
  EXPECT_EQ(begin->device, uuid(4));
  EXPECT_EQ(decode_gpu_call(uvm(26, Image(20).uuid(0, 4)), version)->what, What::context_end);
  EXPECT_EQ(decode_gpu_call(uvm(0x30000001, Image(16)), version)->what, What::open);
  auto prefetch = decode_gpu_call(uvm(51, range(80, 0x2000, 4096).put(32, 1u)), version);
  ASSERT_TRUE(prefetch);
  EXPECT_TRUE(prefetch->asynchronous);
  EXPECT_FALSE(prefetch->device) << "no uuid: to the host";
}

TEST(GpuUvmCall, numbers_of_no_interest_and_unreadable_arguments_say_nothing) {
  auto version = driver("535.183.01");
  for (std::uint32_t command : {0u, 23u, 27u, 39u, 75u, 127u, 0x30000002u})
    EXPECT_FALSE(decode_gpu_call(uvm(command, Image(80)), version)) << command;
  EXPECT_FALSE(decode_gpu_call(uvm(73, Image(0)), version));
  EXPECT_FALSE(decode_gpu_call(uvm(73, range(24, 0x1000, ~0ull)), version)) << "longer than any machine";
  auto refused = uvm(73, range(24, 0x1000, 4096));
  refused.result = -14;
  EXPECT_FALSE(decode_gpu_call(refused, version));
}

Image memory_params(std::uint64_t size, std::uint32_t flags = 0, std::uint32_t attributes = 0) {
  return Image(72).put(8, flags).put(24, attributes).put(64, size);
}

TEST(GpuRmCall, an_allocation_tells_handles_class_and_size_in_all_three_forms) {
  struct Form {
    std::uint32_t command;
    std::size_t size, status;
    std::string driver;
  };
  for (const Form& form : std::vector<Form>{{0xc030462b, 48, 40, "535.43.02"},
                                            {0xc030462b, 48, 40, "610.43.02"},
                                            {0xc028462b, 40, 32, "515.43.04"},
                                            {0xc028462b, 40, 36, "525.60.11"},
                                            {0xc020462b, 32, 24, "525.60.11"},
                                            {0xc020462b, 32, 28, "550.54.14"}}) {
    Image head = Image(form.size).put(0, 0xc1d00024u).put(4, 0x5c000001u).put(8, 0x5c000099u).put(12, 0x40u);
    head.put(form.status, 0x51u);
    auto op = decode_gpu_call(rm(form.command, head, memory_params(GiB(6).count)), driver(form.driver));
    ASSERT_TRUE(op) << form.driver;
    EXPECT_EQ(op->what, What::alloc);
    EXPECT_EQ(op->object, (GpuObject{0xc1d00024, 0x5c000099}));
    EXPECT_EQ(op->parent, 0x5c000001u);
    EXPECT_EQ(op->kind, GpuMemoryKind::device);
    EXPECT_EQ(op->bytes, GiB(6));
    EXPECT_EQ(op->status, 0x51u) << form.driver << " " << form.size;
    EXPECT_TRUE(is_out_of_memory(op->status, true));
  }
}

TEST(GpuRmCall, the_class_tells_the_kind_of_memory) {
  auto version = driver("550.54.14");
  auto of = [&](std::uint32_t rm_class, const Image& params) {
    return decode_gpu_call(
        rm(0xc030462b, Image(48).put(0, 1u).put(4, 2u).put(8, 3u).put(12, rm_class), params), version);
  };
  EXPECT_EQ(of(0x40, memory_params(4096))->kind, GpuMemoryKind::device);
  EXPECT_EQ(of(0x3E, memory_params(4096))->kind, GpuMemoryKind::pinned);
  EXPECT_EQ(of(0xF8, Image(72).put(8, std::uint64_t{8192}))->kind, GpuMemoryKind::external);
  EXPECT_EQ(of(0xF8, Image(72).put(8, std::uint64_t{8192}))->bytes, Bytes{8192});
  EXPECT_EQ(of(0x71, memory_params(4096))->kind, GpuMemoryKind::pinned);
  EXPECT_FALSE(of(0x71, memory_params(4096))->bytes) << "its parameters have another form";
  EXPECT_FALSE(of(0x40, memory_params(4096, 0x00080000))) << "address space only";
  for (std::uint32_t other : {0x0u, 0x41u, 0x70u, 0x50A0u, 0x80u, 0x2080u, 0x90F1u})
    EXPECT_FALSE(of(other, memory_params(4096)));
  auto unreadable = of(0x40, Image(0));
  ASSERT_TRUE(unreadable);
  EXPECT_FALSE(unreadable->bytes);
}

Image heap(std::uint32_t function) {
  return Image(184).put(0, 0xc1d00024u).put(4, 0x5c000001u).put(8, function);
}

TEST(GpuRmCall, a_heap_allocation_is_on_the_card_or_in_the_host_by_its_attributes) {
  auto alloc = [](std::uint32_t flags, std::uint32_t attributes) {
    return decode_gpu_call(
        rm(0xc0b8464a,
           heap(2).put(44, 77u).put(52, flags).put(56, attributes).put(88, std::uint64_t{2 << 20})),
        std::nullopt);
  };
  auto device = alloc(0, 0);
  ASSERT_TRUE(device);
  EXPECT_EQ(device->object, (GpuObject{0xc1d00024, 77}));
  EXPECT_EQ(device->bytes, MiB(2));
  EXPECT_EQ(device->kind, GpuMemoryKind::device);
  EXPECT_EQ(alloc(0, 1u << 25)->kind, GpuMemoryKind::pinned);
  EXPECT_EQ(alloc(0, 3u << 25)->kind, GpuMemoryKind::pinned);
  EXPECT_FALSE(alloc(0x00080000, 0)) << "address space only";
}

TEST(GpuRmCall, the_other_functions_of_the_heap) {
  auto range_form =
      decode_gpu_call(rm(0xc0b8464a, heap(14).put(44, 7u).put(80, std::uint64_t{4096})), std::nullopt);
  ASSERT_TRUE(range_form);
  EXPECT_EQ(range_form->bytes, Bytes{4096});
  auto freed = decode_gpu_call(rm(0xc0b8464a, heap(3).put(44, 7u)), std::nullopt);
  ASSERT_TRUE(freed);
  EXPECT_EQ(freed->what, What::free);
  EXPECT_EQ(freed->object.object, 7u);
  auto info = decode_gpu_call(
      rm(0xc0b8464a, heap(5).put(24, std::uint64_t(GiB(32).count)).put(32, std::uint64_t(GiB(9).count))),
      std::nullopt);
  ASSERT_TRUE(info);
  EXPECT_EQ(info->what, What::free_seen);
  EXPECT_EQ(info->bytes, GiB(32));
  EXPECT_EQ(info->free_bytes, GiB(9));
  auto pinned = decode_gpu_call(
      rm(0xc0b8464a, heap(27).put(40, 8u).put(64, std::uint64_t{0x7000}).put(72, std::uint64_t{8191})),
      std::nullopt);
  ASSERT_TRUE(pinned);
  EXPECT_EQ(pinned->kind, GpuMemoryKind::pinned);
  EXPECT_EQ(pinned->bytes, Bytes{8192}) << "the limit is the last byte";
  EXPECT_FALSE(decode_gpu_call(rm(0xc0b8464a, heap(99)), std::nullopt));
}

TEST(GpuRmCall, pinned_host_memory_by_descriptor_has_the_programs_address_and_its_last_byte) {
  auto op = decode_gpu_call(rm(0xc0384627, Image(56)
                                               .put(0, 1u)
                                               .put(4, 2u)
                                               .put(8, 3u)
                                               .put(12, 0x71u)
                                               .put(24, std::uint64_t{0x7f00})
                                               .put(32, std::uint64_t{(4 << 20) - 1})
                                               .put(40, 0u)),
                            std::nullopt);
  ASSERT_TRUE(op);
  EXPECT_EQ(op->kind, GpuMemoryKind::pinned);
  EXPECT_EQ(op->bytes, MiB(4));
  EXPECT_EQ(op->address, 0x7f00u);
}

TEST(GpuRmCall, frees_and_second_handles_name_their_objects) {
  auto freed =
      decode_gpu_call(rm(0xc0104629, Image(16).put(0, 1u).put(4, 2u).put(8, 3u).put(12, 0u)), std::nullopt);
  ASSERT_TRUE(freed);
  EXPECT_EQ(freed->what, What::free);
  EXPECT_EQ(freed->object, (GpuObject{1, 3}));
  auto dup = decode_gpu_call(
      rm(0xc01c4634, Image(28).put(0, 1u).put(4, 2u).put(8, 3u).put(12, 4u).put(16, 5u).put(24, 0u)),
      std::nullopt);
  ASSERT_TRUE(dup);
  EXPECT_EQ(dup->what, What::duplicate);
  EXPECT_EQ(dup->object, (GpuObject{1, 3}));
  EXPECT_EQ(dup->source, (GpuObject{4, 5}));
}

TEST(GpuRmCall, the_answer_about_free_memory_is_read_from_its_pairs) {
  Image params(128);
  params.put(0, 3u)
      .put(4, 0x08u)
      .put(8, 33554432u)
      .put(12, 0x16u)
      .put(16, 1048576u)
      .put(20, 0x09u)
      .put(24, 30000000u);
  Image head = Image(32).put(0, 1u).put(4, 3u).put(8, 0x20801303u);
  auto op = decode_gpu_call(rm(0xc020462a, head, params), std::nullopt);
  ASSERT_TRUE(op);
  EXPECT_EQ(op->what, What::free_seen);
  EXPECT_EQ(op->object, (GpuObject{1, 3}));
  EXPECT_EQ(op->bytes, KiB(30000000)) << "what can be had, not what is soldered to the card";
  EXPECT_EQ(op->free_bytes, GiB(1));
  params.put(0, ~0u);
  EXPECT_TRUE(decode_gpu_call(rm(0xc020462a, head, params), std::nullopt))
      << "a count of any size ends with the bytes";
}

TEST(GpuRmCall, which_card_an_object_stands_for_is_read_as_bytes_and_as_text) {
  Image head = Image(32).put(0, 1u).put(4, 3u).put(8, 0x2080014au);
  Image bytes(128), text(128), cut(20);
  bytes.put(4, 2u).put(8, 16u);
  for (std::size_t i = 0; i < 16; ++i) bytes.put(12 + i, static_cast<std::uint8_t>(0xa0 + i));
  std::string uuid = "GPU-a0a1a2a3-a4a5-a6a7-a8a9-aaabacadaeaf";
  text.put(8, static_cast<std::uint32_t>(uuid.size() + 1));
  for (std::size_t i = 0; i < uuid.size(); ++i) text.put(12 + i, uuid[i]);
  for (const Image& params : {bytes, text}) {
    auto op = decode_gpu_call(rm(0xc020462a, head, params), std::nullopt);
    ASSERT_TRUE(op);
    EXPECT_EQ(op->what, What::card);
    EXPECT_EQ(op->object, (GpuObject{1, 3}));
    ASSERT_TRUE(op->device);
    EXPECT_EQ(to_string(*op->device), uuid);
  }
  cut.put(8, 16u);
  EXPECT_FALSE(decode_gpu_call(rm(0xc020462a, head, cut), std::nullopt));
}

TEST(GpuRmCall, memory_that_other_devices_may_read_is_what_a_program_asked_for) {
  auto op = decode_gpu_call(
      rm(0xc020462a, Image(32).put(0, 1u).put(4, 13u).put(8, 0x503c0104u), Image(32).put(0, 7u)),
      std::nullopt);
  ASSERT_TRUE(op);
  EXPECT_EQ(op->what, What::registers);
  EXPECT_EQ(op->object, (GpuObject{1, 7}));
  EXPECT_FALSE(decode_gpu_call(rm(0xc020462a, Image(32).put(0, 1u).put(4, 1u).put(8, 0x20800102u), Image(32)),
                               std::nullopt))
      << "another question";
}

TEST(GpuRmCall, a_size_that_no_machine_has_is_not_believed) {
  EXPECT_FALSE(decode_gpu_call(rm(0xc0b8464a, heap(2).put(88, ~0ull)), std::nullopt));
  EXPECT_FALSE(decode_gpu_call(rm(0xc0384627, Image(56).put(12, 0x71u).put(32, ~0ull)), std::nullopt));
}

TEST(GpuRmCall, a_cut_image_is_of_no_call_and_gives_no_field_that_is_not_in_it) {
  const std::map<std::uint32_t, std::set<std::size_t>> forms = {
      {0x27, {56}}, {0x29, {16}}, {0x34, {28}}, {0x4A, {184}}};
  auto command = [](std::uint32_t number, std::size_t size) {
    return 0xC0000000 | static_cast<std::uint32_t>(size) << 16 | 0x4600 | number;
  };
  for (const auto& [number, sizes] : forms)
    for (std::size_t size = 0; size <= 184; ++size) {
      Image head(size);
      if (size > 16) head.put(8, 3u).put(12, 0x71u);  // the heap's free, or pinned memory
      auto op = decode_gpu_call(rm(command(number, size), head), std::nullopt);
      EXPECT_EQ(op.has_value(), sizes.contains(size)) << number << " of " << size;
    }
  for (std::size_t size = 0; size <= 184; ++size) {
    auto alloc = decode_gpu_call(
        rm(command(0x2B, size), size >= 16 ? Image(size).put(12, 0x40u) : Image(size)), driver("535.43.02"));
    EXPECT_EQ(alloc.has_value(), size == 32 || size == 40 || size == 48) << size;
    EXPECT_FALSE(alloc && alloc->bytes) << "without its parameters";
  }
  for (std::size_t size = 0; size <= 128; ++size)
    EXPECT_FALSE(decode_gpu_call(rm(command(0x2A, 32), Image(32), Image(size)), std::nullopt)) << size;
  for (std::size_t size = 0; size <= 80; ++size) {
    auto reserved = decode_gpu_call(uvm(73, Image(size)), std::nullopt);
    EXPECT_EQ(reserved.has_value(), size >= 16) << size;
    EXPECT_EQ(reserved && reserved->status, size >= 20) << size;
    auto map = decode_gpu_call(uvm(33, Image(40), Image(size % 25)), driver("550.54.14"));
    ASSERT_TRUE(map);
    EXPECT_EQ(map->status.has_value(), size % 25 == 24) << size;
    EXPECT_EQ(map->object, GpuObject{}) << size;
  }
}

TEST(GpuRmCall, what_never_changed_reads_the_same_for_every_driver_and_for_an_unknown_one) {
  std::vector<std::optional<GpuDriverVersion>> all = {std::nullopt};
  for (const std::string& name : kDrivers) all.push_back(driver(name));
  for (const auto& version : all) {
    auto heap_op = decode_gpu_call(
        rm(0xc0b8464a, heap(2).put(20, 0x51u).put(44, 7u).put(88, std::uint64_t{1 << 30})), version);
    ASSERT_TRUE(heap_op);
    EXPECT_EQ(heap_op->bytes, GiB(1));
    EXPECT_EQ(heap_op->status, 0x51u);
    auto form48 = decode_gpu_call(
        rm(0xc030462b, Image(48).put(0, 1u).put(8, 3u).put(12, 0x40u).put(40, 0x1Au), memory_params(4096)),
        version);
    ASSERT_TRUE(form48);
    EXPECT_EQ(form48->status, 0x1Au);
    EXPECT_TRUE(is_out_of_memory(form48->status, true));
    EXPECT_FALSE(is_out_of_memory(form48->status, false)) << "only of what asks for memory";
    auto freed = decode_gpu_call(rm(0xc0104629, Image(16).put(8, 3u).put(12, 0x1Bu)), version);
    ASSERT_TRUE(freed);
    EXPECT_EQ(freed->status, 0x1Bu);
    auto pinned = decode_gpu_call(
        rm(0xc0384627, Image(56).put(12, 0x3Eu).put(32, std::uint64_t{4095}).put(40, 0x51u)), version);
    ASSERT_TRUE(pinned);
    EXPECT_EQ(pinned->status, 0x51u);
    auto dup = decode_gpu_call(rm(0xc01c4634, Image(28).put(8, 3u).put(24, 0x1Bu)), version);
    ASSERT_TRUE(dup);
    EXPECT_EQ(dup->status, 0x1Bu);
    auto begin = decode_gpu_call(uvm(25, Image(32).uuid(0, 4).put(28, 0x1Fu)), version);
    ASSERT_TRUE(begin);
    EXPECT_EQ(begin->status, 0x1Fu);
    auto end = decode_gpu_call(uvm(26, Image(20).uuid(0, 4).put(16, 0x1Fu)), version);
    ASSERT_TRUE(end);
    EXPECT_EQ(end->status, 0x1Fu);
    auto opened = decode_gpu_call(uvm(0x30000001, Image(16).put(8, 0x1Fu)), version);
    ASSERT_TRUE(opened);
    EXPECT_EQ(opened->status, 0x1Fu);
  }
}

TEST(GpuRmCall, the_short_forms_of_an_allocation_have_no_status_under_an_unknown_driver) {
  for (std::size_t size : {32u, 40u}) {
    auto op = decode_gpu_call(rm(0xc0004600u | static_cast<std::uint32_t>(size) << 16 | 0x2b,
                                 Image(size).put(12, 0x40u), memory_params(4096)),
                              std::nullopt);
    ASSERT_TRUE(op);
    EXPECT_FALSE(op->status);
    EXPECT_EQ(op->bytes, Bytes{4096});
  }
}

TEST(GpuRmCall, the_driver_tells_its_version) {
  Image head(72);
  std::memcpy(head.bytes.data() + 8, "580.65.06", 10);
  auto op = decode_gpu_call(rm(0xc04846d2, head), std::nullopt);
  ASSERT_TRUE(op);
  EXPECT_EQ(op->version, (GpuDriverVersion{580, 65, 6}));
  std::memset(head.bytes.data() + 8, 'x', 64);
  EXPECT_FALSE(decode_gpu_call(rm(0xc04846d2, head), std::nullopt)) << "no number, and no end";
}

TEST(GpuMapping, of_nvidia_uvm_is_managed_memory_and_munmap_is_of_anything) {
  wire::GpuCall call;
  call.call = Call::mmap;
  call.device = Device::uvm;
  call.address = 0x7f0000000000;
  call.length = 2 << 20;
  auto op = decode_gpu_call(call, std::nullopt);
  ASSERT_TRUE(op);
  EXPECT_EQ(op->what, What::managed_map);
  EXPECT_EQ(op->bytes, MiB(2));
  call.call = Call::munmap;
  EXPECT_EQ(decode_gpu_call(call, std::nullopt)->what, What::unmapped);
  call.length = ~0ull;
  EXPECT_FALSE(decode_gpu_call(call, std::nullopt));
}

}  // namespace
}  // namespace oomcast
