LOAD ducklake;
LOAD azure;
CREATE OR REPLACE TEMPORARY SECRET "lakeconf_prod" (TYPE ducklake, METADATA_PATH 'duckdb:/lake/catalog.duckdb', DATA_PATH 'az://acme.blob.core.windows.net/shop/lake/');
ATTACH 'ducklake:lakeconf_prod' AS "prod" (DATA_INLINING_ROW_LIMIT 0);
USE "prod";
