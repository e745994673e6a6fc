// Descriptions of the card errors (Xids) that the NVIDIA driver reports.
#pragma once

#include <cstdint>
#include <string_view>

namespace oomcast {

/// From NVIDIA's list of Xids, shortened; empty: a rare one.
constexpr std::string_view gpu_xid_name(std::uint32_t code) {
  switch (code) {
    case 13:
      return "graphics engine exception";
    case 31:
      return "memory page fault on the card";
    case 43:
      return "the card stopped working for a program";
    case 45:
      return "a program's work was removed";
    case 48:
      return "double bit ECC error";
    case 63:
      return "memory row remapped";
    case 64:
      return "memory row could not be remapped";
    case 74:
      return "NVLink error";
    case 79:
      return "the card has fallen off the bus";
    case 94:
      return "contained memory error";
    case 95:
      return "uncontained memory error";
    case 119:
    case 120:
      return "error of the card's own system processor";
    default:
      return "";
  }
}

}  // namespace oomcast
