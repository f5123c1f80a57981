LOAD ducklake;
LOAD sqlite_scanner;
LOAD httpfs;
SET GLOBAL sqlite_disable_multithreaded_scans = 'true';
CREATE OR REPLACE TEMPORARY SECRET "my_bucket" (TYPE r2, KEY_ID 'AKIA0', SECRET '***', ACCOUNT_ID '0a1b', SCOPE 'r2://acme/');
CREATE OR REPLACE TEMPORARY SECRET "lakeconf_prod" (TYPE ducklake, METADATA_PATH 'sqlite:/lake/catalog.sqlite', DATA_PATH 'r2://acme/shop/');
ATTACH 'ducklake:lakeconf_prod' AS "prod" (DATA_INLINING_ROW_LIMIT 0, META_BUSY_TIMEOUT 30000, META_JOURNAL_MODE 'WAL');
USE "prod";
