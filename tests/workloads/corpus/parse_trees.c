/* A parser whose trees are freed, all but their string nodes. */
#include <stdlib.h>
#include <string.h>

#include "corpus.h"

struct node {
  struct node *left, *right;
  char* text;
};

__attribute__((noinline)) static struct node* new_node(struct node* left, struct node* right) {
  struct node* made = calloc(1, sizeof(*made));
  made->left = left;
  made->right = right;
  return made;
}

__attribute__((noinline)) static void set_text(struct node* node, int i) {
  char line[400];
  memset(line, 'a' + i % 26, sizeof(line) - 1);
  line[sizeof(line) - 1] = 0;
  node->text = strdup(line);
  corpus_keeps(sizeof(line));
}

static struct node* parse(int depth, int i) {
  struct node* made =
      depth ? new_node(parse(depth - 1, 2 * i), parse(depth - 1, 2 * i + 1)) : new_node(NULL, NULL);
  if (!depth) set_text(made, i);
  return made;
}

static void free_tree(struct node* node) {
  if (!node) return;
  free_tree(node->left);
  free_tree(node->right);
  free(node); /* and not its text */
}

int main(void) {
  corpus_ready("set_text");
  for (int i = 0;; ++i) {
    free_tree(parse(5, i));
    corpus_step(4000);
  }
}
