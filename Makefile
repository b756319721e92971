# shortener, a PostgreSQL extension with a redirect frontend. `make help` lists what there is.

EXTENSION = shortener
EXTVERSION := $(shell sed -n "s/^default_version *= *'\(.*\)'/\1/p" shortener.control)

MODULE_big = shortener
OBJS = $(patsubst %.cpp,%.o,$(sort $(wildcard extension/core/*.cpp extension/pg/*.cpp)))
PG_CPPFLAGS = -Iextension -MMD -MP
PG_CXXFLAGS = -std=c++20 -Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers -Wno-register \
	$(if $(WERROR),-Werror)
SHLIB_LINK = -lstdc++ -licuuc -lre2 -lyaml -lmaxminddb

# The extension's script is these topics, in this order: the tables of each topic, then install(), then the functions.
SQL_PARTS = prepare codes urls visitors \
	tables/installation tables/workspaces tables/links tables/expiry tables/clicks tables/tags tables/access tables/audit session install \
	procedures partitions workspaces tenancy links tags resolve expiry visitor_counters clicks click_rollup click_maintenance \
	click_statistics click_reports users api_keys roles audit jobs
DATA_built = sql/shortener--$(EXTVERSION).sql
DATA = $(wildcard sql/shortener--*--*.sql)
EXTRA_CLEAN = .build $(OBJS:.o=.d) frontend/shortenerd
# Where `make install` puts the frontend and its systemd unit.
frontend_bindir = /usr/local/bin
frontend_unitdir = /usr/local/lib/systemd/system

PG_CONFIG ?= pg_config
PGXS := $(wildcard $(shell $(PG_CONFIG) --pgxs 2>/dev/null))
ifneq ($(PGXS),)
override with_llvm = no
include $(PGXS)
-include $(OBJS:.o=.d)

all: frontend/shortenerd
install: install-frontend
uninstall: uninstall-frontend

# The frontend is no part of the shared library: its own Makefile knows its dependencies.
.PHONY: frontend/shortenerd install-frontend uninstall-frontend
frontend/shortenerd:
	+$(MAKE) -C frontend PG_CONFIG=$(PG_CONFIG)

install-frontend: frontend/shortenerd
	$(MKDIR_P) '$(DESTDIR)$(frontend_bindir)' '$(DESTDIR)$(frontend_unitdir)'
	$(INSTALL_PROGRAM) frontend/shortenerd '$(DESTDIR)$(frontend_bindir)/'
	sed 's|@bindir@|$(frontend_bindir)|' frontend/shortenerd.service > '$(DESTDIR)$(frontend_unitdir)/shortenerd.service'

uninstall-frontend:
	rm -f '$(DESTDIR)$(frontend_bindir)/shortenerd' '$(DESTDIR)$(frontend_unitdir)/shortenerd.service'

sql/shortener--$(EXTVERSION).sql: $(SQL_PARTS:%=sql/%.sql) shortener.control Makefile
	{ printf '%s\n' '\echo Use "CREATE EXTENSION shortener" to load this file. \quit'; cat $(SQL_PARTS:%=sql/%.sql); } > $@
else
# Before `make deps` has run there is no PGXS to include.
all install: deps
	$(MAKE) $@
clean:
	rm -rf $(OBJS) $(EXTRA_CLEAN)
endif

.PHONY: deps stage run stop test fuzz bench format lint dist help

deps: ## install the Debian packages that building and running need
	@tools/deps $(PG_CONFIG) build run

stage: deps ## build and install into .build/postgres, a private copy of the Postgres installation
	+@tools/stage "$(MAKE)" $(PG_CONFIG)

run: ## start a private cluster and the frontend under .run, and say how to use them
	+@tools/run "$(MAKE)" $(PORT)

stop: ## stop what `make run` started
	@tools/stop

test: deps-test stage ## run every test
	@test/run

fuzz: deps-test stage ## fuzz the core and the SQL functions, FUZZ_SECONDS (60) each
	@test/run fuzz

bench: deps-bench stage ## measure against references, side by side
	@bench/run

format: deps-lint ## format the C++ sources
	@tools/format

lint: deps-lint stage ## check the format and the sources: clang-format, clang-tidy
	@tools/lint $(PG_CONFIG)

# More packages than `make run` needs.
.PHONY: deps-test deps-bench deps-lint
deps-test: deps
	@tools/deps $(PG_CONFIG) test
deps-bench: deps
	@tools/deps $(PG_CONFIG) bench
deps-lint: deps
	@tools/deps $(PG_CONFIG) lint

dist: ## archive for PGXN
	git archive --format zip -o shortener-$(EXTVERSION).zip --prefix=shortener-$(EXTVERSION)/ \
		--add-virtual-file="shortener-$(EXTVERSION)/META.json:$$(sed 's/@VERSION@/$(EXTVERSION)/' META.json)" HEAD

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' Makefile | expand -t 10
