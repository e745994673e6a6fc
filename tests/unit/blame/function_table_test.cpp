#include "blame/function_table.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

namespace oomcast {
namespace {

constexpr std::uint64_t kTableAt = 1 << 20;  // of symbols, in the file

struct Function {
  std::uint64_t begin, size;
  std::string name;
};

/// A shared library with these functions, and with as many symbols as it says beyond them: those lie in a
/// hole.
std::shared_ptr<const OpenFile> library(MappedFiles& files, const std::vector<Function>& functions,
                                        std::uint64_t symbols, std::uint64_t sections = 3) {
  UniqueFd fd(memfd_create("library", MFD_CLOEXEC));
  std::string names(1, '\0');
  std::vector<Elf64_Sym> table(1);
  for (const Function& f : functions) {
    Elf64_Sym symbol{};
    symbol.st_name = static_cast<Elf64_Word>(names.size());
    symbol.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
    symbol.st_shndx = 1;
    symbol.st_value = f.begin;
    symbol.st_size = f.size;
    table.push_back(symbol);
    names += f.name + '\0';
  }
  auto write_at = [&](std::uint64_t at, const void* bytes, std::size_t size) {
    EXPECT_EQ(pwrite(fd.get(), bytes, size, static_cast<off_t>(at)), static_cast<ssize_t>(size));
  };
  Elf64_Ehdr head{};
  std::memcpy(head.e_ident, ELFMAG, SELFMAG);
  head.e_ident[EI_CLASS] = ELFCLASS64;
  head.e_ident[EI_DATA] = ELFDATA2LSB;
  head.e_type = ET_DYN;
  head.e_phoff = sizeof(head);
  head.e_phentsize = sizeof(Elf64_Phdr);
  head.e_phnum = 1;
  head.e_shoff = 4096;
  head.e_shentsize = sizeof(Elf64_Shdr);  // e_shnum is 0: the first one says how many there are
  Elf64_Phdr part{};
  part.p_type = PT_LOAD;
  part.p_filesz = part.p_memsz = 1 << 30;
  std::vector<Elf64_Shdr> headers(3);
  headers[0].sh_size = sections;
  headers[1].sh_type = SHT_SYMTAB;
  headers[1].sh_offset = kTableAt;
  headers[1].sh_size = std::max<std::uint64_t>(symbols, table.size()) * sizeof(Elf64_Sym);
  headers[1].sh_entsize = sizeof(Elf64_Sym);
  headers[1].sh_link = 2;
  headers[2].sh_type = SHT_STRTAB;
  headers[2].sh_offset = 8192;
  headers[2].sh_size = names.size();
  write_at(0, &head, sizeof(head));
  write_at(sizeof(head), &part, sizeof(part));
  write_at(4096, headers.data(), headers.size() * sizeof(headers[0]));
  write_at(8192, names.data(), names.size());
  write_at(kTableAt, table.data(), table.size() * sizeof(table[0]));
  EXPECT_EQ(ftruncate(fd.get(), static_cast<off_t>(kTableAt + headers[1].sh_size + 4096)), 0);
  return files.share({std::move(fd), ""});
}

TEST(FunctionTable, names_the_innermost_function_at_an_address) {
  MappedFiles files;
  auto file =
      library(files, {{0x2000, 0x100, "later"}, {0x1000, 0x100, "outer"}, {0x1010, 0x10, "inner"}}, 0);
  EXPECT_EQ(files.name_at(*file, 0x1000), "outer");
  EXPECT_EQ(files.name_at(*file, 0x101f), "inner");
  EXPECT_EQ(files.name_at(*file, 0x1020), "outer");
  EXPECT_EQ(files.name_at(*file, 0x2000), "later");
}

TEST(FunctionTable, gives_no_name_where_no_function_is) {
  MappedFiles files;
  auto file = library(files, {{0x1000, 0x10, "first"}, {0x1020, 0x10, "second"}}, 0);
  for (std::uint64_t at : {0xfffu, 0x1010u, 0x101fu, 0x1030u}) EXPECT_EQ(files.name_at(*file, at), "");
  EXPECT_EQ(files.unread(), 0u);
}

TEST(FunctionTable, names_the_same_one_of_several_names_each_time) {
  MappedFiles files;
  auto file = library(files, {{0x1000, 0x10, "b"}, {0x1000, 0x10, "a"}, {0x1000, 0x20, "c"}}, 0);
  EXPECT_EQ(files.name_at(*file, 0x1004), "b");
  EXPECT_EQ(files.name_at(*file, 0x1014), "c");
}

TEST(FunctionTable, of_a_sparse_file_of_450_mib_is_not_read_and_that_is_counted) {
  MappedFiles files;
  auto file = library(files, {{0x1000, 0x10, "f"}}, (450 << 20) / sizeof(Elf64_Sym));
  EXPECT_EQ(files.name_at(*file, 0x1004), "");
  EXPECT_EQ(files.name_at(*file, 0x1008), "");
  EXPECT_EQ(files.unread(), 1u);
}

TEST(FunctionTable, of_a_file_with_holes_for_symbols_has_the_others) {
  MappedFiles files;
  auto file = library(files, {{0x1000, 0x10, "f"}}, 1'000'000);
  EXPECT_EQ(files.name_at(*file, 0x1004), "f");
}

TEST(FunctionTable, is_read_for_no_more_than_a_gibibyte_in_all) {
  MappedFiles files;
  std::vector<std::shared_ptr<const OpenFile>> many;
  for (int i = 0; i < 12; ++i) {
    many.push_back(library(files, {{0x1000, 0x10, "f"}}, (100 << 20) / sizeof(Elf64_Sym)));
    (void)files.name_at(*many.back(), 0x1004);
  }
  EXPECT_EQ(files.unread(), 12u - 5u);  // each is read twice
}

TEST(ElfFile, with_more_sections_than_are_looked_at_has_no_symbols) {
  MappedFiles files;
  auto file = library(files, {{0x1000, 0x10, "f"}}, 0, 1'000'000);
  ASSERT_TRUE(file->elf);
  EXPECT_TRUE(file->elf->symbols().empty());
}

TEST(MappedFiles, have_a_file_open_once_for_all_processes) {
  MappedFiles files;
  auto file = library(files, {}, 0);
  UniqueFd again(dup(file->file.fd.get()));
  EXPECT_EQ(files.share({std::move(again), ""}), file);
}

}  // namespace
}  // namespace oomcast
