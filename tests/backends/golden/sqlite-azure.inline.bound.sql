LOAD ducklake;
LOAD sqlite_scanner;
LOAD azure;
SET GLOBAL sqlite_disable_multithreaded_scans = 'true';
CREATE OR REPLACE TEMPORARY SECRET "my_bucket" (TYPE azure, CONNECTION_STRING 'AccountName=acme;BlobEndpoint=https://acme.blob.core.windows.net;AccountKey=' || ?, SCOPE 'az://acme.blob.core.windows.net/shop/');
CREATE OR REPLACE TEMPORARY SECRET "lakeconf_prod" (TYPE ducklake, METADATA_PATH 'sqlite:/lake/catalog.sqlite', DATA_PATH 'az://acme.blob.core.windows.net/shop/lake/');
ATTACH 'ducklake:lakeconf_prod' AS "prod" (DATA_INLINING_ROW_LIMIT 0, META_BUSY_TIMEOUT 30000, META_JOURNAL_MODE 'WAL');
USE "prod";
